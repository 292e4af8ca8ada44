#include "analysis/run_charts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/figure_text.h"

namespace composer {
namespace {

struct Metric {
  std::string name;   ///< in the log
  std::string label;  ///< in the legend of one run
  bool evaluation = false, dashed = false;
};

struct Subject {
  std::string title;
  std::vector<Metric> metrics;
  Figures figures = Figures::plain;
  bool from_zero = false;
};

const std::vector<Subject> subjects{
    {"Loss", {{"loss/train", "training"}, {"metrics/eval/CrossEntropy", "evaluation", true}}},
    {"Accuracy",
     {{"metrics/train/Accuracy", "training"},
      {"metrics/eval/Accuracy", "evaluation", true},
      {"metrics/eval/Top5Accuracy", "evaluation, top 5", true, true}},
     Figures::share},
    {"Learning rate", {{"lr", "learning rate"}}, Figures::plain, true},
    {"Image size",
     {{"progressive_resizing/width", "width"},
      {"progressive_resizing/height", "height", false, true}},
     Figures::plain},
    {"Images a second", {{"throughput/samples_per_sec", "images/s"}}, Figures::plain, true},
    {"Waiting for data", {{"time/wait_fraction", "share of the time"}}, Figures::share, true},
    {"Use of the device's peak", {{"throughput/mfu", "mfu"}}, Figures::share, true},
};

/// Several runs: each metric has its own chart.
std::string title_of(const Subject& subject, const Metric& metric) {
  if (subject.metrics.size() == 1) return subject.title;
  static const std::map<std::string, std::string> titles{
      {"loss/train", "Training loss"},
      {"metrics/eval/CrossEntropy", "Evaluation cross-entropy"},
      {"metrics/train/Accuracy", "Training accuracy"},
      {"metrics/eval/Accuracy", "Evaluation accuracy"},
      {"metrics/eval/Top5Accuracy", "Evaluation accuracy, top 5"},
      {"progressive_resizing/width", "Image width"},
      {"progressive_resizing/height", "Image height"}};
  return titles.at(metric.name);
}

/// The mean over a part of an epoch says less than that over a whole one.
std::vector<LogEntry> entries_for(const Run& run, const std::string& metric) {
  if (!metric.starts_with("metrics/train/")) return run.log;
  std::vector<LogEntry> epochs;
  std::ranges::copy_if(run.log, std::back_inserter(epochs), [&](const auto& entry) {
    return entry.event == "epoch" && entry.values.contains(metric);
  });
  return epochs.size() > 1 ? epochs : run.log;
}

Curve curve_in(const Run& run, const std::string& metric) {
  return curve_of(entries_for(run, metric), metric);
}

/// Whether powers of ten show the curves better.
bool spans_decades(const LineChart& chart) {
  double low = INFINITY, high = 0;
  for (const auto& line : chart.lines)
    for (const auto& point : line.curve.points)
      if (std::isfinite(point.value))
        low = std::min(low, point.value), high = std::max(high, point.value);
  return low > 0 && high >= 500 * low;
}

LineChart finished(LineChart chart) {
  chart.logarithmic = spans_decades(chart);
  const bool trend =
      std::ranges::any_of(chart.lines, [](const auto& line) { return is_noisy(line.curve); });
  if (trend) chart.note = "faint: every batch; strong: the mean around it";
  return chart;
}

bool same_points(const Curve& a, const Curve& b) {
  return std::ranges::equal(a.points, b.points, [](const auto& one, const auto& other) {
    return one.batch == other.batch && one.value == other.value;
  });
}

LineChart of_one_run(const Subject& subject, const Run& run) {
  LineChart chart{subject.title, "", subject.figures, false, subject.from_zero, {}};
  for (const auto& metric : subject.metrics) {
    auto curve = curve_in(run, metric.name);
    if (curve.points.empty()) continue;
    if (metric.name.ends_with("/height") && !chart.lines.empty() &&
        same_points(curve, chart.lines.back().curve))
      continue;
    const int color = metric.evaluation ? 1 : 0;
    chart.lines.push_back(
        {metric.label, color, metric.evaluation, metric.dashed, std::move(curve)});
  }
  return finished(std::move(chart));
}

LineChart of_runs(const std::string& title, const std::string& metric, Figures figures,
                  bool from_zero, const std::vector<Run>& runs) {
  LineChart chart{title, "", figures, false, from_zero, {}};
  for (size_t i = 0; i < runs.size(); ++i)
    chart.lines.push_back({runs[i].name, static_cast<int>(i % 8), metric.starts_with("metrics/"),
                           i >= 8, curve_in(runs[i], metric)});
  return finished(std::move(chart));
}

void add_if_drawn(std::vector<LineChart>& charts, LineChart chart) {
  if (has_points(chart)) charts.push_back(std::move(chart));
}

bool is_shown_elsewhere(const std::string& metric) {
  if (metric.starts_with("time/") || metric.starts_with("ranks/") || metric == "wall_clock/train")
    return true;
  for (const auto& subject : subjects)
    for (const auto& known : subject.metrics)
      if (known.name == metric) return true;
  return false;
}

bool is_constant(const Curve& curve) {
  return std::ranges::all_of(curve.points, [&](const auto& point) {
    return point.value == curve.points.front().value ||
           (std::isnan(point.value) && std::isnan(curve.points.front().value));
  });
}

void add_other(RunCharts& charts, const std::string& metric, const std::vector<Run>& runs) {
  auto chart = of_runs(metric, metric, Figures::plain, false, runs);
  if (runs.size() == 1) chart.lines[0].name = metric;
  const bool constant =
      std::ranges::all_of(chart.lines, [](const auto& line) { return is_constant(line.curve); });
  if (!constant) return add_if_drawn(charts.others, std::move(chart));
  std::vector<std::string> values;
  for (const auto& line : chart.lines)
    values.push_back(line.curve.points.empty() ? "" : figure(line.curve.points.front().value));
  charts.constants.emplace_back(metric, std::move(values));
}

}  // namespace

RunCharts charts_of(const std::vector<Run>& runs) {
  RunCharts charts;
  for (const auto& subject : subjects) {
    if (runs.size() == 1) {
      add_if_drawn(charts.main, of_one_run(subject, runs[0]));
      continue;
    }
    for (const auto& metric : subject.metrics)
      if (!metric.name.ends_with("/height"))
        add_if_drawn(charts.main, of_runs(title_of(subject, metric), metric.name, subject.figures,
                                          subject.from_zero, runs));
  }
  std::set<std::string> metrics;
  for (const auto& run : runs)
    for (const auto& metric : metrics_of(run.log)) metrics.insert(metric);
  for (const auto& metric : metrics)
    if (!is_shown_elsewhere(metric)) add_other(charts, metric, runs);
  return charts;
}

}  // namespace composer
