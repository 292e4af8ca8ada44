#include "analysis/line_chart.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/chart_axes.h"
#include "analysis/figure_text.h"
#include "analysis/markup.h"

namespace composer {
namespace {

constexpr size_t most_points = 2000, most_drawn = 700;

/// The drawing and the field inside it, in units of the drawing.
constexpr double width = 480, height = 250;
constexpr double left = 46, right = 468, top = 10, bottom = 216;

double across(double share) { return left + share * (right - left); }
double up(double share) { return bottom - share * (bottom - top); }

std::string grid(const LineChart& chart, const Axis& values, const Course& course) {
  std::string drawn;
  for (const double tick : values.ticks()) {
    const auto y = length_text(up(values.place(tick)));
    drawn += element("path", {{"class", "grid"},
                              {"d", "M" + length_text(left) + " " + y + "H" + length_text(right)}});
    drawn += element("text", {{"x", length_text(left - 6)}, {"y", y}, {"class", "value"}},
                     escaped(value_tick(chart, values, tick)));
  }
  for (const double tick : course.axis.ticks()) {
    const auto x = length_text(across(course.axis.place(tick)));
    drawn +=
        element("path", {{"class", "tick"}, {"d", "M" + x + " " + length_text(bottom) + "v4"}});
    drawn += element("text", {{"x", x}, {"y", length_text(bottom + 16)}, {"class", "course"}},
                     course.tick(tick));
  }
  drawn += element("path", {{"class", "base"},
                            {"d", "M" + length_text(left) + " " + length_text(bottom) + "H" +
                                      length_text(right)}});
  return drawn + element("text",
                         {{"x", length_text((left + right) / 2)},
                          {"y", length_text(height - 2)},
                          {"class", "course unit"}},
                         course.title);
}

/// What is not finite interrupts the path. stairs: no slopes.
std::string path_of(const Curve& curve, const Axis& values, const Course& course,
                    bool stairs = false) {
  std::string path;
  bool pen_down = false;
  for (const auto& point : curve.points) {
    if (!std::isfinite(point.value)) {
      pen_down = false;
      continue;
    }
    const auto x = length_text(across(course.place(point)));
    const auto y = length_text(up(values.place(point.value)));
    path += pen_down && stairs ? "H" + x + "V" + y : (pen_down ? "L" : "M") + x + " " + y;
    pen_down = true;
  }
  return path;
}

std::string dots_of(const Curve& curve, const Axis& values, const Course& course) {
  std::string dots;
  for (const auto& point : curve.points)
    if (std::isfinite(point.value))
      dots += element("circle", {{"cx", length_text(across(course.place(point)))},
                                 {"cy", length_text(up(values.place(point.value)))},
                                 {"r", "2.6"}});
  return dots;
}

/// A cross where a curve stops being finite.
std::string breaks_of(const Curve& curve, const Axis& values, const Course& course) {
  std::string breaks;
  for (size_t i = 1; i < curve.points.size(); ++i) {
    const auto &before = curve.points[i - 1], &point = curve.points[i];
    if (std::isfinite(point.value) || !std::isfinite(before.value)) continue;
    const auto x = across(course.place(point)), y = up(values.place(before.value));
    breaks +=
        element("path",
                {{"class", "break"},
                 {"d", "M" + length_text(x - 4) + " " + length_text(y - 4) + "l8 8m0-8l-8 8"}},
                element("title", {}, "not finite from step " + count_figure(point.batch)));
  }
  return breaks;
}

/// How wide the line is drawn that `above` lines hide, which are drawn after it.
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
  return element("g",
                 {{"class", "c" + std::to_string(line.color) + (line.dashed ? " dashed" : "")}},
                 drawn + breaks_of(curve, values, course));
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
                  {"data-field", length_text(left) + " " + length_text(right) + " " +
                                     length_text(top) + " " + length_text(bottom)},
                  {"data-course", nlohmann::json({course.axis.low(), course.axis.high()}).dump()},
                  {"data-values", nlohmann::json({values.low(), values.high()}).dump()},
                  {"data-scale", values.kind() == Axis::Kind::linear ? "linear" : "logarithmic"}},
                 inner);
}

nlohmann::ordered_json numbers_of(const LineChart& chart, const ValueUnit& unit) {
  auto lines = nlohmann::ordered_json::array();
  for (const auto& line : chart.lines) {
    nlohmann::ordered_json json{{"name", line.name},
                                {"metric", line.curve.metric},
                                {"color", line.color},
                                {"batch", nlohmann::json::array()},
                                {"sample", nlohmann::json::array()},
                                {"seconds", nlohmann::json::array()},
                                {"value", nlohmann::json::array()}};
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
    items += element("li",
                     {{"class", "c" + std::to_string(line.color) + (line.dashed ? " dashed" : "")}},
                     element("i", {}, "") + escaped(line.name) +
                         (has_points(line.curve) ? "" : ": not finite throughout"));
  return element("ul", {{"class", "legend"}}, items);
}

LineChart without_empty_lines(LineChart chart) {
  std::erase_if(chart.lines, [](const auto& line) { return line.curve.points.empty(); });
  for (auto& line : chart.lines) line.curve = thinned(line.curve, most_points);
  return chart;
}

}  // namespace

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

}  // namespace composer
