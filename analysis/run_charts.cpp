#include "analysis/run_charts.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "analysis/figure_text.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

struct Metric {
  std::string name;   ///< metric in the log
  std::string label;  ///< text in the legend of one run
  bool evaluation = false, dashed = false;
};

struct Subject {
  std::string title;
  std::vector<Metric> metrics;
  Figures figures = Figures::plain;
  bool from_zero = false;
};

const std::vector<Subject> subjects{
    {"Loss",
     {{"loss/train", "training"},
      {"metrics/eval/CrossEntropy", "evaluation", true},
      {"metrics/eval/BinaryCrossEntropy", "evaluation", true}}},
    {"Accuracy",
     {{"metrics/train/Accuracy", "training"},
      {"metrics/eval/Accuracy", "evaluation", true},
      {"metrics/eval/Top5Accuracy", "evaluation, top 5", true, true},
      {"metrics/eval/mAP", "evaluation, mAP", true, true}},
     Figures::share},
    {"Mean error", {{"metrics/train/MAE", "training"}, {"metrics/eval/MAE", "evaluation", true}}},
    {"R2", {{"metrics/eval/R2", "evaluation", true}}},
    {"Learning rate", {{"lr", "learning rate"}}, Figures::plain, true},
    {"Image size",
     {{"progressive_resizing/width", "width"},
      {"progressive_resizing/height", "height", false, true}},
     Figures::pixels},
    {"Images a second", {{"throughput/samples_per_sec", "images/s"}}, Figures::plain, true},
    {"Waiting for data", {{"time/wait_fraction", "share of the time"}}, Figures::share, true},
    {"Use of the device's peak", {{"throughput/mfu", "mfu"}}, Figures::share, true},
};

std::set<std::string> logged_metrics(std::span<const Run> runs) {
  std::set<std::string> logged;
  for (const auto& run : runs) logged.merge(metrics_of(run.log));
  return logged;
}

/// The subjects, with the metrics of further evaluation sets added to val_dataset's metrics.
std::vector<Subject> subjects_of(std::span<const Run> runs) {
  auto all = subjects;
  for (const auto& metric : logged_metrics(runs)) {
    const std::string set(evaluation_set(metric));
    if (set.empty() || set == main_evaluation) continue;
    for (auto& subject : all) {
      const auto same = std::ranges::find(subject.metrics, same_of_main(metric), &Metric::name);
      if (same == subject.metrics.end()) continue;
      auto further = *same;
      further.name = metric, further.label += " on " + set;
      subject.metrics.push_back(std::move(further));
    }
  }
  return all;
}

/// Several runs: each metric has its own chart.
std::string title_of(const Subject& subject, const Metric& metric) {
  if (subject.metrics.size() == 1) return subject.title;
  if (metric.name == "progressive_resizing/width") return "Image width";
  auto title = metric_label(metric.name);
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  return title;
}

/// Metrics of training are means over an epoch, in which they begin anew.
bool is_mean_of_epoch(const std::string& metric) { return metric.starts_with("metrics/train/"); }

/// Whether the curves of `metric` show means over whole epochs only, as they do if that leaves more
/// than one point in some run; a mean over a part of an epoch says less.
bool of_whole_epochs(std::span<const Run> runs, const std::string& metric) {
  return is_mean_of_epoch(metric) && std::ranges::any_of(runs, [&](const auto& run) {
           return curve_of(run.log, metric, "epoch").points.size() > 1;
         });
}

Curve curve_in(const Run& run, const std::string& metric, bool whole_epochs) {
  return curve_of(run.log, metric, whole_epochs ? "epoch" : "");
}

/// What the curves of `metric` show, in words; empty if that is plain.
std::string what_is_drawn(const std::string& metric, bool whole_epochs,
                          const std::vector<std::string>& without) {
  if (!is_mean_of_epoch(metric)) return "";
  if (!whole_epochs) return "training: the mean since the epoch's beginning";
  std::string text = "training: the mean over each epoch";
  for (const auto& name : without) text += (name == without.front() ? "; none of " : ", ") + name;
  return text + (without.empty() ? "" : " has ended");
}

/// Whether a logarithmic axis shows the curves better. The limit is lower for losses, where one
/// outlier hides all other values.
bool spans_decades(const LineChart& chart) {
  const bool loss = std::ranges::any_of(
      chart.lines, [](const auto& line) { return smaller_is_better(line.curve.metric); });
  double low = INFINITY, high = 0;
  for (const auto& line : chart.lines)
    for (const auto& point : line.curve.points)
      if (std::isfinite(point.value))
        low = std::min(low, point.value), high = std::max(high, point.value);
  return !chart.from_zero && low > 0 && high >= (loss ? 50 : 500) * low;
}

/// The furthest batch, sample and second of all runs.
Curve::Point end_of(std::span<const Run> runs) {
  Curve::Point end{};
  for (const auto& run : runs) {
    const auto last = run.last();
    end.batch = std::max(end.batch, last.batch), end.sample = std::max(end.sample, last.sample);
    end.seconds = std::max(end.seconds, last.seconds);
  }
  return end;
}

LineChart finished(LineChart chart, std::span<const Run> runs) {
  chart.logarithmic = spans_decades(chart);
  chart.end = end_of(runs);
  chart.stairs = chart.figures == Figures::pixels;
  if (std::ranges::any_of(chart.lines, [](const auto& line) { return is_noisy(line.curve); }))
    chart.note += (chart.note.empty() ? "" : "; ") +
                  std::string("faint: every batch; strong: the mean around it");
  return chart;
}

bool same_points(const Curve& a, const Curve& b) {
  return std::ranges::equal(a.points, b.points, [](const auto& one, const auto& other) {
    return one.batch == other.batch && one.value == other.value;
  });
}

/// The colour of a further evaluation set: each set of the chart has its own.
int further_color(const std::string& metric, const LineChart& chart) {
  constexpr int first = 2, colors = 8;
  std::set<std::string_view> sets;
  for (const auto& line : chart.lines)
    if (const auto set = evaluation_set(line.curve.metric); !set.empty() && set != main_evaluation)
      sets.insert(set);
  sets.insert(evaluation_set(metric));
  const auto place = std::distance(sets.begin(), sets.find(evaluation_set(metric)));
  return first + static_cast<int>(place) % (colors - first);
}

LineChart of_one_run(const Subject& subject, const Run& run) {
  LineChart chart;
  chart.title = subject.title, chart.figures = subject.figures;
  chart.from_zero = subject.from_zero, chart.named = subject.metrics.size() > 1;
  for (const auto& metric : subject.metrics) {
    const bool whole_epochs = of_whole_epochs({&run, 1}, metric.name);
    auto curve = curve_in(run, metric.name, whole_epochs);
    if (curve.points.empty()) continue;
    if (chart.note.empty()) chart.note = what_is_drawn(metric.name, whole_epochs, {});
    if (metric.name.ends_with("/height") && !chart.lines.empty() &&
        same_points(curve, chart.lines.back().curve)) {
      chart.lines.back().name = "width and height";
      continue;
    }
    const bool further = metric.evaluation && evaluation_set(metric.name) != main_evaluation;
    const int color = further ? further_color(metric.name, chart) : metric.evaluation ? 1 : 0;
    chart.lines.push_back(
        {metric.label, color, metric.evaluation, metric.dashed, std::move(curve)});
  }
  return finished(std::move(chart), {&run, 1});
}

LineChart of_runs(const std::string& title, const std::string& metric, Figures figures,
                  bool from_zero, std::span<const Run> runs) {
  LineChart chart;
  chart.title = title, chart.figures = figures;
  chart.from_zero = from_zero, chart.named = runs.size() > 1;
  const bool whole_epochs = of_whole_epochs(runs, metric);
  std::vector<std::string> without;
  for (size_t i = 0; i < runs.size(); ++i) {
    auto curve = curve_in(runs[i], metric, whole_epochs);
    if (curve.points.empty() && !curve_of(runs[i].log, metric).points.empty())
      without.push_back(runs[i].name);
    chart.lines.push_back({runs[i].name, static_cast<int>(i % 8), metric.starts_with("metrics/"),
                           i >= 8, std::move(curve)});
  }
  chart.note = what_is_drawn(metric, whole_epochs, without);
  return finished(std::move(chart), runs);
}

void add_if_logged(std::vector<LineChart>& charts, LineChart chart) {
  std::erase_if(chart.lines, [](const auto& line) { return line.curve.points.empty(); });
  if (!chart.lines.empty()) charts.push_back(std::move(chart));
}

bool is_shown_elsewhere(const std::string& name) {
  const std::string set(evaluation_set(name));
  const auto metric = set.empty() ? name : same_of_main(name);
  if (metric.starts_with("time/") || metric.starts_with("ranks/") || metric == "wall_clock/train")
    return true;
  return std::ranges::any_of(subjects, [&](const auto& subject) {
    return std::ranges::find(subject.metrics, metric, &Metric::name) != subject.metrics.end();
  });
}

Figures figures_of(const std::string& metric) {
  if (metric.starts_with("memory/")) return Figures::bytes;
  if (metric.ends_with("_seconds") || metric.starts_with("wall_clock/")) return Figures::seconds;
  return Figures::plain;
}

bool is_constant(const Curve& curve) {
  return std::ranges::all_of(curve.points, [&](const auto& point) {
    return point.value == curve.points.front().value ||
           (std::isnan(point.value) && std::isnan(curve.points.front().value));
  });
}

/// A number that never moved needs no axis.
std::string constant_text(const std::string& metric, double value) {
  const auto unit = unit_of(figures_of(metric), value);
  return figure(value / unit.size) + (unit.name.empty() ? "" : " " + unit.name);
}

void add_other(RunCharts& charts, const std::string& metric, std::span<const Run> runs) {
  auto chart = of_runs(metric, metric, figures_of(metric), false, runs);
  if (runs.size() == 1) chart.lines[0].name = metric;
  const bool constant =
      std::ranges::all_of(chart.lines, [](const auto& line) { return is_constant(line.curve); });
  if (!constant) return add_if_logged(charts.others, std::move(chart));
  std::vector<std::string> values;
  for (const auto& line : chart.lines)
    values.push_back(
        line.curve.points.empty() ? "" : constant_text(metric, line.curve.points.front().value));
  charts.constants.emplace_back(metric, std::move(values));
}

}  // namespace

std::vector<LineChart> main_charts_of(std::span<const Run> runs) {
  std::vector<LineChart> charts;
  for (const auto& subject : subjects_of(runs)) {
    if (runs.size() == 1) {
      add_if_logged(charts, of_one_run(subject, runs[0]));
      continue;
    }
    for (const auto& metric : subject.metrics)
      if (!metric.name.ends_with("/height"))
        add_if_logged(charts, of_runs(title_of(subject, metric), metric.name, subject.figures,
                                      subject.from_zero, runs));
  }
  return charts;
}

RunCharts charts_of(std::span<const Run> runs) {
  RunCharts charts;
  charts.main = main_charts_of(runs);
  for (const auto& metric : logged_metrics(runs))
    if (!is_shown_elsewhere(metric)) add_other(charts, metric, runs);
  return charts;
}

}  // namespace composer
