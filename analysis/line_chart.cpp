#include "analysis/line_chart.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/figure_text.h"
#include "analysis/markup.h"

namespace composer {
namespace {

/// The least of 1, 2, 2.5, 5 times a power of ten that is at least `step`.
double nice_step(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/// i * step without the error that a sum would gather.
double multiple(double step, double i) {
  const double value = i * step + 0.0;  // + 0.0 turns -0 into 0
  const double digits = std::pow(10, 3 - std::floor(std::log10(step)));
  return std::isfinite(digits) ? std::round(value * digits) / digits + 0.0 : value;
}

constexpr double largest = 1e300, smallest = 1e-300, slack = 1e-6;

constexpr size_t most_points = 2000, most_drawn = 700;

/// The drawing and the field inside it, in units of the drawing.
constexpr double width = 480, height = 250;
constexpr PlotArea area{46, 468, 10, 216};

/// The line from `left` to `right` at the height `y`.
std::string horizontal(const std::string& css, const PlotArea& plot, double y) {
  return path_element(
      css, "M" + length_text(plot.left) + " " + length_text(y) + "H" + length_text(plot.right));
}

std::string grid(const LineChart& chart, const Axis& values, const Course& course) {
  std::string drawn =
      area.value_grid(values, 6, [&](double tick) { return value_tick(chart, values, tick); });
  for (const double tick : course.axis.ticks()) {
    const double x = area.x(course.axis.place(tick));
    drawn += path_element("tick", "M" + length_text(x) + " " + length_text(area.bottom) + "v4");
    drawn += text_at(x, area.bottom + 16, "course", course.tick(tick));
  }
  return drawn + area.base() + text_at(area.middle(), height - 2, "course unit", course.title);
}

/// The SVG path of a curve; values that are not finite interrupt it. `stairs` draws steps instead
/// of slopes.
std::string path_of(const Curve& curve, const Axis& values, const Course& course,
                    bool stairs = false) {
  std::string path;
  bool pen_down = false;
  for (const auto& point : curve.points) {
    if (!std::isfinite(point.value)) {
      pen_down = false;
      continue;
    }
    const auto x = length_text(area.x(course.place(point)));
    const auto y = length_text(area.y(values.place(point.value)));
    path += pen_down && stairs ? "H" + x + "V" + y : (pen_down ? "L" : "M") + x + " " + y;
    pen_down = true;
  }
  return path;
}

std::string dots_of(const Curve& curve, const Axis& values, const Course& course) {
  std::string dots;
  for (const auto& point : curve.points)
    if (std::isfinite(point.value))
      dots += element("circle", {{"cx", length_text(area.x(course.place(point)))},
                                 {"cy", length_text(area.y(values.place(point.value)))},
                                 {"r", "2.6"}});
  return dots;
}

/// A cross where a curve stops being finite.
std::string breaks_of(const Curve& curve, const Axis& values, const Course& course) {
  std::string breaks;
  for (size_t i = 1; i < curve.points.size(); ++i) {
    const auto &before = curve.points[i - 1], &point = curve.points[i];
    if (std::isfinite(point.value) || !std::isfinite(before.value)) continue;
    const auto x = area.x(course.place(point)), y = area.y(values.place(before.value));
    breaks +=
        element("path",
                {{"class", "break"},
                 {"d", "M" + length_text(x - 4) + " " + length_text(y - 4) + "l8 8m0-8l-8 8"}},
                element("title", {}, "not finite from step " + count_figure(point.batch)));
  }
  return breaks;
}

std::string css_class(const LineChart::Line& line) {
  return "c" + std::to_string(line.color) + (line.dashed ? " dashed" : "");
}

/// The stroke width of a line that `above` later lines hide: wide enough to be seen beside them.
std::string line_width(size_t above) {
  return "stroke-width:" + length_text(1.8 + 1.8 * static_cast<double>(above));
}

std::string drawn_line(const LineChart& chart, size_t index, const Axis& values,
                       const Course& course) {
  const auto& line = chart.lines[index];
  const auto curve = thinned(line.curve, most_drawn);
  const size_t reach = trend_reach(chart, line);
  Attributes of_line{{"class", reach > 0 ? "line faint" : "line"},
                     {"d", path_of(curve, values, course, chart.stairs)}};
  const auto above = std::ranges::count_if(
      chart.lines.begin() + static_cast<std::ptrdiff_t>(index) + 1, chart.lines.end(),
      [&](const auto& other) { return coincide(line.curve, other.curve); });
  if (above > 0) of_line.emplace_back("style", line_width(static_cast<size_t>(above)));
  std::string drawn = element("path", of_line);
  if (reach > 0)
    drawn += element(
        "path", {{"class", "line"},
                 {"d", path_of(thinned(smoothed(line.curve, reach), most_drawn), values, course)}});
  constexpr size_t most_dots = 60, few_points = 20;
  if ((curve.points.size() < few_points && !chart.stairs) ||
      (line.dots && curve.points.size() <= most_dots))
    drawn += dots_of(curve, values, course);
  return element("g", {{"class", css_class(line)}}, drawn + breaks_of(curve, values, course));
}

std::string drawing(const LineChart& chart, const Axis& values, Against against) {
  const auto course = course_of(chart, against);
  std::string inner = grid(chart, values, course);
  for (size_t i = 0; i < chart.lines.size(); ++i) inner += drawn_line(chart, i, values, course);
  return element("svg",
                 {{"class", "by-" + std::string(name(against))},
                  {"viewBox", "0 0 " + length_text(width) + " " + length_text(height)},
                  {"role", "img"},
                  {"aria-label", chart.title + " against " + course.title},
                  {"data-against", std::string(name(against))},
                  {"data-unit", std::to_string(static_cast<int64_t>(course.unit))},
                  {"data-field", length_text(area.left) + " " + length_text(area.right) + " " +
                                     length_text(area.top) + " " + length_text(area.bottom)},
                  {"data-course", nlohmann::json({course.axis.low(), course.axis.high()}).dump()},
                  {"data-values", nlohmann::json({values.low(), values.high()}).dump()},
                  {"data-scale", values.kind() == Axis::Kind::linear ? "linear" : "logarithmic"}},
                 inner);
}

nlohmann::ordered_json numbers_of(const LineChart& chart, const ValueUnit& unit) {
  auto lines = nlohmann::ordered_json::array();
  for (const auto& line : chart.lines) {
    const auto none = nlohmann::json::array();
    nlohmann::ordered_json json{{"name", line.name},   {"metric", line.curve.metric},
                                {"color", line.color}, {"batch", none},
                                {"sample", none},      {"seconds", none},
                                {"value", none}};
    for (const auto& point : line.curve.points) {
      json["batch"].push_back(point.batch);
      json["sample"].push_back(point.sample);
      json["seconds"].push_back(point.seconds);
      json["value"].push_back(std::isfinite(point.value) ? nlohmann::ordered_json(point.value)
                                                         : nlohmann::ordered_json());
    }
    lines.push_back(std::move(json));
  }
  return {{"title", chart.title},
          {"unit", {{"name", unit.name}, {"size", unit.size}}},
          {"lines", lines}};
}

std::string legend(const LineChart& chart) {
  if (chart.lines.size() < 2 && !chart.named) return "";
  std::string items;
  for (const auto& line : chart.lines)
    items += element("li", {{"class", css_class(line)}},
                     element("i", {}, "") + escaped(line.name) +
                         (has_points(line.curve) ? "" : ": not finite throughout"));
  return element("ul", {{"class", "legend"}}, items);
}

LineChart without_empty_lines(LineChart chart) {
  std::erase_if(chart.lines, [](const auto& line) { return line.curve.points.empty(); });
  for (auto& line : chart.lines) line.curve = thinned(line.curve, most_points);
  return chart;
}

struct Extent {
  double low = INFINITY, high = -INFINITY;
  void take(double value) { low = std::min(low, value), high = std::max(high, value); }
};

}  // namespace

void Axis::add_ticks(double step) {
  const auto first = std::llround(std::ceil(low_ / step - slack));
  const auto last = std::llround(std::floor(high_ / step + slack));
  for (auto i = first; i <= last; ++i) ticks_.push_back(multiple(step, static_cast<double>(i)));
}

Axis Axis::linear(double low, double high, Ends ends, int steps) {
  low = std::clamp(low, -largest, largest), high = std::clamp(high, -largest, largest);
  const double size = std::max(std::abs(low), std::abs(high));
  if (high - low <= std::max(1e-12 * size, smallest)) {  // too little to be divided
    const double margin = size <= smallest ? 1 : size * 0.1;
    if (ends == Ends::of_ticks && size > smallest) low -= margin;
    high += margin;
  }
  Axis axis;
  const double step = nice_step((high - low) / steps);
  if (ends == Ends::of_ticks) {
    low = multiple(step, std::floor(low / step + slack));
    high = multiple(step, std::ceil(high / step - slack));
  }
  axis.low_ = low, axis.high_ = high;
  axis.add_ticks(step);
  return axis;
}

Axis Axis::counting(double high) {
  constexpr int steps = 6;
  Axis axis;
  axis.high_ = std::clamp(high, 1.0, largest);
  const double step = nice_step(axis.high_ / steps);
  axis.add_ticks(step < 1 ? 1 : step == 2.5 ? 5 : step);
  return axis;
}

Axis Axis::of_marks(std::vector<double> marks) {
  std::ranges::sort(marks);
  const double low = marks.front(), high = marks.back();
  if (low == high) return linear(low, high);
  constexpr double margin = 0.06, least_gap = 0.07;
  Axis axis;
  axis.low_ = low - margin * (high - low), axis.high_ = high + margin * (high - low);
  for (const double mark : marks)
    if (axis.ticks_.empty() || axis.place(mark) - axis.place(axis.ticks_.back()) >= least_gap)
      axis.ticks_.push_back(mark);
  return axis;
}

Axis Axis::times(double factor) const {
  Axis axis = *this;
  axis.low_ *= factor, axis.high_ *= factor;
  for (double& tick : axis.ticks_) tick *= factor;
  return axis;
}

Axis Axis::logarithmic(double low, double high) {
  low = std::clamp(low, smallest, largest), high = std::clamp(high, smallest, largest);
  Axis axis;
  axis.kind_ = Kind::logarithmic;
  const auto around = [](double value, bool above) {
    const double power = std::pow(10, std::floor(std::log10(value)));
    double nearest = power;
    for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
      const double mark = factor * power;
      if (above && mark >= value * (1 - 1e-9)) return mark;
      if (mark <= value * (1 + 1e-9)) nearest = mark;
    }
    return nearest;
  };
  axis.low_ = around(low, false), axis.high_ = around(high, true);
  if (axis.low_ == axis.high_) axis.high_ *= 10;
  const double first = std::floor(std::log10(axis.low_)), last = std::log10(axis.high_);
  const double every = std::ceil((last - first) / 6);
  const bool few = last - std::log10(axis.low_) <= 2.5;
  for (double power = first; power <= last + 1e-9; power += every)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, power);
      const bool inside = tick >= axis.low_ * (1 - 1e-9) && tick <= axis.high_ * (1 + 1e-9);
      if (inside && (few || factor == 1)) axis.ticks_.push_back(tick);
    }
  return axis;
}

double Axis::place(double value) const {
  if (std::isnan(value)) return value;
  if (kind_ == Kind::linear) return std::clamp((value - low_) / (high_ - low_), 0.0, 1.0);
  if (value <= low_) return 0;
  return std::min(std::log(value / low_) / std::log(high_ / low_), 1.0);
}

TimeUnitOfAxis time_unit_for(double longest) {
  if (longest > 3 * 86400) return {"days", 86400};
  if (longest > 2 * 3600) return {"hours", 3600};
  if (longest > 180) return {"minutes", 60};
  return {"seconds", 1};
}

std::string PlotArea::value_grid(const Axis& values, double gap,
                                 const std::function<std::string(double)>& label) const {
  std::string drawn;
  for (const double tick : values.ticks()) {
    const double height = y(values.place(tick));
    drawn += horizontal("grid", *this, height) + text_at(left - gap, height, "value", label(tick));
  }
  return drawn;
}

std::string PlotArea::base() const { return horizontal("base", *this, bottom); }

std::string chart_figure(const std::string& title, const std::string& note,
                         const std::string& label, double width, double height,
                         const std::string& inner) {
  return element(
      "figure", {{"class", "chart"}},
      element("figcaption", {}, escaped(title) + " " + element("small", {}, escaped(note))) +
          element("div", {{"class", "plot"}},
                  element("svg",
                          {{"viewBox", "0 0 " + length_text(width) + " " + length_text(height)},
                           {"role", "img"},
                           {"aria-label", label}},
                          inner)));
}

size_t trend_reach(const LineChart& chart, const LineChart::Line& line) {
  size_t reach = 0;
  for (const auto& other : chart.lines)
    if (other.curve.metric == line.curve.metric && is_noisy(other.curve))
      reach = std::max(reach, trend_reach(other.curve));
  return reach;
}

bool has_points(const LineChart& chart) {
  return std::ranges::any_of(chart.lines, [](const auto& line) { return has_points(line.curve); });
}

std::string figure_of(const LineChart& given) {
  const auto chart = without_empty_lines(given);
  if (chart.lines.empty()) return "";
  std::string inner =
      element("figcaption", {},
              escaped(chart.title) +
                  (chart.note.empty() ? "" : " " + element("small", {}, escaped(chart.note))));
  inner += legend(chart);
  ValueUnit unit;
  std::string drawings;
  if (has_points(chart)) {
    const auto values = values_axis(chart);
    unit = unit_of(chart.figures, values.high());
    for (const auto against : all_against) drawings += drawing(chart, values, against);
  } else {
    drawings = element("p", {{"class", "faded"}}, "not finite throughout");
  }
  inner += element("div", {{"class", "plot"}}, drawings);
  inner += data_element("class", "data", numbers_of(chart, unit));
  return element("figure", {{"class", "chart"}}, inner);
}

std::string axis_labels() {
  std::string labels;
  for (const auto& [id, text] :
       {std::pair{"batch", "steps"}, {"sample", "images"}, {"seconds", "time"}})
    labels += element("label", {{"for", std::string("against-") + id}}, text);
  return element("div", {{"class", "against"}}, element("span", {}, "against") + labels);
}

std::string figures_of(const std::vector<LineChart>& charts) {
  std::string all;
  for (const auto& chart : charts) all += figure_of(chart);
  return all.empty() ? "" : element("div", {{"class", "charts"}}, all);
}

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
