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
                     escaped(value_tick(chart, tick)));
  }
  for (const double tick : course.axis.ticks()) {
    const auto x = length_text(across(course.axis.place(tick)));
    drawn +=
        element("path", {{"class", "tick"}, {"d", "M" + x + " " + length_text(bottom) + "v4"}});
    drawn += element("text", {{"x", x}, {"y", length_text(bottom + 16)}, {"class", "course"}},
                     tick_figure(tick));
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

/// What is not finite interrupts the path.
std::string path_of(const Curve& curve, const Axis& values, const Course& course) {
  std::string path;
  bool pen_down = false;
  for (const auto& point : curve.points) {
    if (!std::isfinite(point.value)) {
      pen_down = false;
      continue;
    }
    path += (pen_down ? "L" : "M") + length_text(across(course.place(point))) + " " +
            length_text(up(values.place(point.value)));
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

std::string drawn_line(const LineChart::Line& line, const Axis& values, const Course& course) {
  const auto curve = thinned(line.curve, most_drawn);
  const bool noisy = is_noisy(line.curve);
  std::string drawn = element(
      "path", {{"class", noisy ? "line faint" : "line"}, {"d", path_of(curve, values, course)}});
  if (noisy)
    drawn += element("path",
                     {{"class", "line"},
                      {"d", path_of(thinned(smoothed(line.curve), most_drawn), values, course)}});
  constexpr size_t most_dots = 60;
  if (curve.points.size() == 1 || (line.dots && curve.points.size() <= most_dots))
    drawn += dots_of(curve, values, course);
  return element(
      "g", {{"class", "c" + std::to_string(line.color) + (line.dashed ? " dashed" : "")}}, drawn);
}

std::string drawing(const LineChart& chart, const Axis& values, Against against) {
  const auto course = course_of(chart, against);
  std::string inner = grid(chart, values, course);
  for (const auto& line : chart.lines) inner += drawn_line(line, values, course);
  return element("svg",
                 {{"class", "by-" + std::string(name(against))},
                  {"viewBox", "0 0 " + length_text(width) + " " + length_text(height)},
                  {"role", "img"},
                  {"aria-label", chart.title + " against " + course.title},
                  {"data-against", std::string(name(against))},
                  {"data-unit", tick_figure(course.unit)},
                  {"data-field", length_text(left) + " " + length_text(right) + " " +
                                     length_text(top) + " " + length_text(bottom)},
                  {"data-course", nlohmann::json({course.axis.low(), course.axis.high()}).dump()},
                  {"data-values", nlohmann::json({values.low(), values.high()}).dump()},
                  {"data-scale", values.kind() == Axis::Kind::linear ? "linear" : "logarithmic"}},
                 inner);
}

nlohmann::ordered_json numbers_of(const LineChart& chart) {
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
          {"figures", chart.figures == Figures::share ? "share" : "plain"},
          {"lines", lines}};
}

std::string legend(const LineChart& chart) {
  if (chart.lines.size() < 2) return "";
  std::string items;
  for (const auto& line : chart.lines)
    items += element("li",
                     {{"class", "c" + std::to_string(line.color) + (line.dashed ? " dashed" : "")}},
                     element("i", {}, "") + escaped(line.name));
  return element("ul", {{"class", "legend"}}, items);
}

LineChart without_empty_lines(LineChart chart) {
  std::erase_if(chart.lines, [](const auto& line) { return !has_points(line.curve); });
  for (auto& line : chart.lines) line.curve = thinned(line.curve, most_points);
  return chart;
}

}  // namespace

bool has_points(const LineChart& chart) {
  return std::ranges::any_of(chart.lines, [](const auto& line) { return has_points(line.curve); });
}

std::string figure_of(const LineChart& given) {
  const auto chart = without_empty_lines(given);
  if (chart.lines.empty()) return "";
  const auto values = values_axis(chart);
  std::string inner =
      element("figcaption", {},
              escaped(chart.title) +
                  (chart.note.empty() ? "" : " " + element("small", {}, escaped(chart.note))));
  inner += legend(chart);
  std::string drawings;
  for (const auto against : all_against) drawings += drawing(chart, values, against);
  inner += element("div", {{"class", "plot"}}, drawings);
  inner += element("script", {{"type", "application/json"}, {"class", "data"}},
                   script_safe(numbers_of(chart).dump()));
  return element("figure", {{"class", "chart"}}, inner);
}

}  // namespace composer
