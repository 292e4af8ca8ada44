#include "analysis/chart_axes.h"

#include <algorithm>
#include <cmath>

#include "analysis/figure_text.h"

namespace composer {
namespace {

struct Extent {
  double low = INFINITY, high = -INFINITY;
  void take(double value) { low = std::min(low, value), high = std::max(high, value); }
};

}  // namespace

Axis values_axis(const LineChart& chart) {
  Extent extent;
  for (const auto& line : chart.lines)
    for (const auto& point : line.curve.points)
      if (std::isfinite(point.value)) extent.take(point.value);
  if (chart.logarithmic && extent.low > 0) return Axis::logarithmic(extent.low, extent.high);
  if (chart.from_zero && extent.low > 0) extent.low = 0;
  return Axis::linear(extent.low, extent.high);
}

std::string value_tick(const LineChart& chart, double value) {
  return chart.figures == Figures::share ? tick_figure(value * 100) + " %" : tick_figure(value);
}

Course course_of(const LineChart& chart, Against against) {
  Extent extent;
  for (const auto& line : chart.lines)
    for (const auto& point : line.curve.points) extent.take(point.at(against));
  double unit = 1;
  std::string title = against == Against::batch ? "steps" : "images";
  if (against == Against::seconds) {
    const auto of_time = time_unit_for(extent.high);
    unit = of_time.seconds, title = of_time.name;
  }
  // What was measured all along begins with the run.
  if (extent.low < 0.25 * extent.high) extent.low = 0;
  return {against, unit, title,
          Axis::linear(extent.low / unit, extent.high / unit, Axis::Ends::of_values, 6)};
}

}  // namespace composer
