#include "analysis/chart_axes.h"

#include <algorithm>
#include <cmath>
#include <set>

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
  std::set<double> distinct;
  for (const auto& line : chart.lines)
    for (const auto& point : line.curve.points)
      if (std::isfinite(point.value)) {
        extent.take(point.value);
        if (chart.figures == Figures::pixels) distinct.insert(point.value);
      }
  if (chart.figures == Figures::pixels) return Axis::of_marks({distinct.begin(), distinct.end()});
  if (chart.logarithmic && extent.low > 0) return Axis::logarithmic(extent.low, extent.high);
  if (chart.from_zero && extent.low > 0) extent.low = 0;
  const double unit = unit_of(chart.figures, extent.high).size;
  return Axis::linear(extent.low / unit, extent.high / unit).times(unit);
}

ValueUnit unit_of(Figures figures, double largest) {
  switch (figures) {
    case Figures::share:
      return {"%", 0.01};
    case Figures::pixels:
      return {"px", 1};
    case Figures::seconds: {
      if (largest < 1) return {"ms", 0.001};
      const auto unit = time_unit_for(largest);
      return {unit.name == "seconds"   ? "s"
              : unit.name == "minutes" ? "min"
                                       : unit.name.substr(0, 1),
              unit.seconds};
    }
    case Figures::bytes:
      return largest < 1 << 30 ? ValueUnit{"MiB", 1 << 20} : ValueUnit{"GiB", 1 << 30};
    default:
      return {"", 1};
  }
}

std::string value_tick(const LineChart& chart, const Axis& values, double value) {
  const auto unit = unit_of(chart.figures, values.high());
  const auto text = tick_figure(
      value / unit.size, values.kind() == Axis::Kind::linear ? values.high() / unit.size : 0);
  return unit.name.empty() ? text : text + " " + unit.name;
}

std::string Course::tick(double value) const { return tick_figure(value, axis.high()); }

Course course_of(const LineChart& chart, Against against) {
  double end = chart.end.at(against);
  for (const auto& line : chart.lines)
    for (const auto& point : line.curve.points) end = std::max(end, point.at(against));
  if (against != Against::seconds)
    return {against, 1, against == Against::batch ? "steps" : "images", Axis::counting(end)};
  const auto [title, unit] = time_unit_for(end);
  return {against, unit, title, Axis::linear(0, end / unit, Axis::Ends::of_values, 6)};
}

}  // namespace composer
