// The axes of a chart of curves, on a page and in a terminal alike.
#pragma once

#include <string>

#include "analysis/axis.h"
#include "analysis/line_chart.h"

namespace composer {

/// The vertical one. The chart has a finite value.
Axis values_axis(const LineChart& chart);

/// What stands beside a tick of it.
std::string value_tick(const LineChart& chart, const Axis& values, double value);

/// What the chart's numbers, of which none is larger, are told in: MiB, minutes.
struct ValueUnit {
  std::string name;
  double size = 1;
};
ValueUnit unit_of(Figures figures, double largest);

/// The horizontal one, from the runs' beginning.
struct Course {
  Against against;
  double unit = 1;    ///< what the curves' numbers are divided by first
  std::string title;  ///< "steps", "images", or a unit of time
  Axis axis;

  std::string tick(double value) const;

  /// In [0, 1].
  double place(const Curve::Point& point) const { return axis.place(point.at(against) / unit); }
};
Course course_of(const LineChart& chart, Against against);

}  // namespace composer
