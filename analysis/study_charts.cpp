#include "analysis/study_charts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/chart_axes.h"
#include "analysis/figure_text.h"
#include "analysis/line_chart.h"
#include "analysis/markup.h"
#include "analysis/metric_text.h"
#include "base/terminal.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

constexpr size_t colors = 8;

std::string path(const std::string& kind, const std::string& d) {
  return element("path", {{"class", kind}, {"d", d}});
}

std::string text_at(double x, double y, const std::string& kind, const std::string& text) {
  return element("text", {{"x", length_text(x)}, {"y", length_text(y)}, {"class", kind}},
                 escaped(text));
}

std::string dot_at(double x, double y, double radius, const std::string& title,
                   const std::string& style = "") {
  Attributes attributes{{"cx", length_text(x)}, {"cy", length_text(y)}, {"r", length_text(radius)}};
  if (!style.empty()) attributes.emplace_back("style", style);
  return element("circle", attributes, element("title", {}, escaped(title)));
}

std::string figure_with(const std::string& title, const std::string& note, const std::string& label,
                        double width, double height, const std::string& inner) {
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

/// A chart of such values, whose axis is the study's.
LineChart chart_of(const Study& study, const std::vector<double>& values) {
  LineChart chart;
  chart.title = metric_label(study.metric);
  chart.figures = is_share(study.metric) ? Figures::share : Figures::plain;
  Curve curve{study.metric, {}};
  for (const double value : values) curve.points.push_back({0, 0, 0, value});
  chart.lines.push_back({"", 0, true, false, curve});
  return chart;
}

/// Half of the 95 % interval of the mean; 0 where it is not known.
double margin_of(const Repeats& repeats) {
  const std::pair<double, Repeats> alone[]{{1.0, repeats}};
  return contrast_of(alone).margin.value_or(0);
}

std::string name_that_fits(const std::string& name) {
  constexpr int64_t most = 34;
  return columns_of(name) <= most ? name : first_columns(name, most - 1) + "…";
}

}  // namespace

std::string spread_figure(const Study& study) {
  std::vector<double> values;
  for (const auto& variant : study.variants) {
    for (const auto& run : variant.runs)
      if (run.done() && run.metric && std::isfinite(*run.metric)) values.push_back(*run.metric);
    const auto repeats = figures_of(variant).metric;
    if (repeats.count > 1 && std::isfinite(repeats.mean))
      for (const double sign : {-1, 1})
        values.push_back(repeats.mean + sign * std::min(margin_of(repeats), 3 * repeats.deviation));
  }
  if (values.empty()) return "";
  const auto chart = chart_of(study, values);
  const auto axis = values_axis(chart);
  constexpr double width = 960, left = 220, right = 940, row = 26, top = 6;
  const double bottom = top + row * static_cast<double>(study.variants.size());
  const auto across = [&](double value) { return left + axis.place(value) * (right - left); };
  std::string drawn;
  for (const double tick : axis.ticks()) {
    drawn += path("grid", "M" + length_text(across(tick)) + " " + length_text(top) + "V" +
                              length_text(bottom));
    drawn += text_at(across(tick), bottom + 16, "course", value_tick(chart, axis, tick));
  }
  for (size_t i = 0; i < study.variants.size(); ++i) {
    const auto& variant = study.variants[i];
    const double y = top + row * (static_cast<double>(i) + 0.5);
    drawn += text_at(left - 10, y, "value", name_that_fits(variant.name));
    const auto repeats = figures_of(variant).metric;
    std::string marks;
    if (repeats.count > 1 && std::isfinite(repeats.mean)) {
      const double margin = margin_of(repeats), x = across(repeats.mean);
      marks += path("line", "M" + length_text(across(repeats.mean - margin)) + " " +
                                length_text(y) + "H" + length_text(across(repeats.mean + margin)));
      marks += path("line", "M" + length_text(x) + " " + length_text(y - 7) + "v14");
    }
    for (const auto& run : variant.runs)
      if (run.done() && run.metric && std::isfinite(*run.metric))
        marks += dot_at(across(*run.metric), y, 3.4,
                        "seed " + std::to_string(run.seed) + ": " +
                            metric_figure(study.metric, *run.metric, decimals_for(*run.metric)),
                        "fill-opacity:.55");
    drawn +=
        element("g", {{"class", "c" + std::to_string(i == 0 && study.compared ? 1 : 0)}}, marks);
  }
  drawn +=
      path("base", "M" + length_text(left) + " " + length_text(bottom) + "H" + length_text(right));
  return figure_with(chart.title, "a dot a seed; mean and its 95 % interval",
                     chart.title + " of each variant", width, bottom + 22, drawn);
}

std::string frontier_figure(const Study& study, Cost cost) {
  struct Place {
    size_t variant;
    double x, y;
  };
  const double price = cost == Cost::money ? study.price_per_hour.value_or(0) / 3600 : 1;
  std::vector<Place> places;
  std::vector<double> values, costs;
  for (size_t i = 0; i < study.variants.size(); ++i) {
    const auto figures = figures_of(study.variants[i]);
    if (figures.metric.count == 0 || !std::isfinite(figures.metric.mean)) continue;
    places.push_back({i, figures.seconds.mean * price, figures.metric.mean});
    costs.push_back(places.back().x), values.push_back(places.back().y);
  }
  if (places.size() < 2) return "";
  const auto chart = chart_of(study, values);
  const auto up_axis = values_axis(chart);
  const double most = *std::ranges::max_element(costs);
  const TimeUnitOfAxis unit =
      cost == Cost::time ? time_unit_for(most) : TimeUnitOfAxis{"cost", 1.0};
  const auto across_axis = Axis::linear(0, most / unit.seconds);
  constexpr double width = 960, height = 330, left = 60, right = 930, top = 12, bottom = 286;
  const auto across = [&](double x) {
    return left + across_axis.place(x / unit.seconds) * (right - left);
  };
  const auto up = [&](double y) { return bottom - up_axis.place(y) * (bottom - top); };
  std::string drawn;
  for (const double tick : up_axis.ticks()) {
    drawn += path("grid",
                  "M" + length_text(left) + " " + length_text(up(tick)) + "H" + length_text(right));
    drawn += text_at(left - 8, up(tick), "value", value_tick(chart, up_axis, tick));
  }
  for (const double tick : across_axis.ticks())
    drawn += text_at(across(tick * unit.seconds), bottom + 16, "course",
                     tick_figure(tick, across_axis.high()));
  drawn += text_at((left + right) / 2, height - 6, "course unit", unit.name);
  drawn +=
      path("base", "M" + length_text(left) + " " + length_text(bottom) + "H" + length_text(right));

  std::map<std::string, size_t> series;
  std::map<std::string, std::vector<Place>> lines;
  for (const auto& place : places) {
    const auto& name = study.variants[place.variant].series;
    series.emplace(name, series.size());
    lines[name].push_back(place);
  }
  const auto line_of = [&](std::vector<Place> line) {
    std::ranges::stable_sort(line, {}, &Place::x);
    std::string d;
    for (const auto& place : line)
      d += (d.empty() ? "M" : "L") + length_text(across(place.x)) + " " + length_text(up(place.y));
    return d;
  };
  const auto frontier = frontier_of(study);
  std::vector<Place> best;
  for (const auto& place : places)
    if (std::ranges::count(frontier, place.variant) > 0) best.push_back(place);
  drawn += element("path", {{"class", "pointer"}, {"style", "fill:none"}, {"d", line_of(best)}});
  for (const auto& [name, line] : lines) {
    std::string marks;
    if (!name.empty() && line.size() > 1) marks += path("line faint", line_of(line));
    for (const auto& place : line) {
      const auto& variant = study.variants[place.variant].name;
      const bool leads = std::ranges::count(frontier, place.variant) > 0;
      marks += dot_at(across(place.x), up(place.y), leads ? 5 : 3.4, variant);
      if (leads)
        marks += element("text",
                         {{"x", length_text(across(place.x) - 8)},
                          {"y", length_text(up(place.y) - 8)},
                          {"style", across(place.x) > (left + right) / 2 ? "text-anchor:end"
                                                                         : "text-anchor:start"}},
                         escaped(name_that_fits(variant)));
    }
    drawn += element("g", {{"class", "c" + std::to_string(series[name] % colors)}}, marks);
  }
  const std::string against = cost == Cost::time ? " against time" : " against cost";
  return figure_with(
      chart.title + against,
      "large dots: no other variant is as good in as little; the dashed line joins them",
      chart.title + against, width, height, drawn);
}

std::string course_figure(const Study& study) {
  LineChart chart;
  chart.title = metric_label(study.metric);
  chart.note = "the first seed of each variant";
  chart.figures = is_share(study.metric) ? Figures::share : Figures::plain;
  chart.named = true;
  for (const auto& variant : study.variants) {
    if (chart.lines.size() == colors) {
      chart.note += "; of the first eight variants";
      break;
    }
    const auto run = std::ranges::find_if(variant.runs, &StudyRun::done);
    if (run != variant.runs.end())
      chart.lines.push_back(
          {variant.name, static_cast<int>(chart.lines.size()), true, false, run->curve});
  }
  return figure_of(chart);
}

}  // namespace composer
