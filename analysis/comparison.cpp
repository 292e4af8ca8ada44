#include "analysis/comparison.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/figure_text.h"
#include "analysis/metric_text.h"
#include "base/json_number.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

bool is_outcome(const std::string& metric) {
  return metric.starts_with("metrics/") || metric.starts_with("loss/");
}

void take_from_log(RunOutcome& outcome, const Run& run) {
  const auto last = run.last();
  outcome.epochs = last.epoch, outcome.batches = last.batch, outcome.samples = last.sample;
  outcome.seconds = last.seconds;
  for (const auto& entry : run.log)
    for (const auto& [name, value] : entry.values) {
      if (name == "throughput/samples_per_sec") outcome.images_per_second = value;
      if (name == "time/wait_fraction") outcome.wait_fraction = value;
      if (!is_outcome(name)) continue;
      auto& metric = outcome.metrics[name];
      const bool mean_of_part = entry.event == "batch" && name.starts_with("metrics/");
      if (mean_of_part && metric.best) continue;
      metric.last = value;
      if (!mean_of_part && (!metric.best || improves(name, value, *metric.best)))
        metric.best = value, metric.best_batch = entry.batch;
    }
}

void take_from_summary(RunOutcome& outcome, const RunSummary& summary) {
  outcome.epochs = summary.epochs, outcome.batches = summary.batches;
  outcome.samples = summary.samples, outcome.seconds = summary.seconds;
  if (summary.samples_per_second > 0) outcome.images_per_second = summary.samples_per_second;
  outcome.wait_fraction = summary.wait_fraction;
  outcome.peak_memory_bytes = summary.peak_memory_bytes;
  for (const auto& [name, value] : summary.metrics) {
    if (!is_outcome(name)) continue;
    const auto best = summary.best_metrics.find(name);
    outcome.metrics[name] = best == summary.best_metrics.end()
                                ? MetricOutcome{value, {}, 0}
                                : MetricOutcome{value, best->second.value, best->second.batch};
  }
}

template <class Get>
ComparisonRow row_of(const std::string& label, const std::vector<RunOutcome>& runs,
                     const Get& get) {
  ComparisonRow row{label, {}, {}};
  for (const auto& run : runs) row.cells.push_back(get(run));
  return row;
}

/// The run whose value of the metric is best; nothing where two share it, or no other has one.
template <class Value>
std::optional<size_t> winner_of(const std::vector<RunOutcome>& runs, const std::string& metric,
                                const Value& value) {
  std::optional<size_t> best;
  bool shared = false;
  size_t rivals = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto found = runs[i].metrics.find(metric);
    if (found == runs[i].metrics.end()) continue;
    const std::optional<double> here = value(found->second);
    if (!here || std::isnan(*here)) continue;
    ++rivals;
    if (!best) {
      best = i;
      continue;
    }
    const double before = *value(runs[*best].metrics.at(metric));
    if (*here == before) shared = true;
    if (improves(metric, *here, before)) best = i, shared = false;
  }
  return shared || rivals < 2 ? std::nullopt : best;
}

/// The last values; below them the best ones, where some run's is another, and their steps.
void add_metric_rows(std::vector<ComparisonRow>& rows, const std::vector<RunOutcome>& runs,
                     const std::string& metric) {
  double least = INFINITY;
  bool moved = false;
  for (const auto& run : runs) {
    const auto found = run.metrics.find(metric);
    if (found == run.metrics.end()) continue;
    const double last = found->second.last, best = found->second.best.value_or(last);
    moved = moved || (best != last && !std::isnan(best));
    for (const double value : {std::abs(last), std::abs(best)})
      if (value > 0) least = std::min(least, value);
  }
  const auto add = [&](const std::string& label, const auto& text) {
    rows.push_back(row_of(label, runs, [&](const auto& run) {
      const auto found = run.metrics.find(metric);
      return found == run.metrics.end() ? std::string() : text(found->second);
    }));
  };
  const int decimals = decimals_for(least);
  const auto add_values = [&](const std::string& label, const auto& value) {
    add(label, [&](const auto& outcome) {
      const std::optional<double> number = value(outcome);
      return number ? metric_figure(metric, *number, decimals) : std::string();
    });
    rows.back().winner = winner_of(runs, metric, value);
  };
  add_values(metric_label(metric), [](const auto& outcome) { return std::optional(outcome.last); });
  if (!moved) return;
  add_values("  best", [](const auto& outcome) { return outcome.best; });
  add("  at step", [](const auto& outcome) {
    return outcome.best ? count_figure(outcome.best_batch) : std::string();
  });
}

std::vector<ComparisonRow> rows_of(const std::vector<RunOutcome>& runs) {
  std::vector<ComparisonRow> rows{
      row_of("status", runs, [](const auto& run) { return run.status; }),
      row_of("epochs", runs, [](const auto& run) { return count_figure(run.epochs); }),
      row_of("steps", runs, [](const auto& run) { return count_figure(run.batches); }),
      row_of("time", runs, [](const auto& run) { return duration_figure(run.seconds); }),
      row_of("images/s", runs,
             [](const auto& run) {
               return run.images_per_second ? figure(*run.images_per_second) : std::string();
             }),
      row_of("waited for data", runs,
             [](const auto& run) {
               return run.wait_fraction ? percent_figure(*run.wait_fraction) : std::string();
             }),
      row_of("peak memory", runs, [](const auto& run) {
        return run.peak_memory_bytes ? bytes_figure(*run.peak_memory_bytes) : std::string();
      })};
  std::set<std::string> metrics;
  for (const auto& run : runs)
    for (const auto& [name, outcome] : run.metrics) metrics.insert(name);
  const auto add = [&](const auto& belongs) {
    for (const auto& metric : metrics)
      if (belongs(metric)) add_metric_rows(rows, runs, metric);
  };
  add([](const auto& metric) { return evaluation_set(metric) == main_evaluation; });
  add([](const auto& metric) {
    const auto set = evaluation_set(metric);
    return !set.empty() && set != main_evaluation;
  });
  for (const char* kind : {"metrics/train/", "loss/"})
    add([kind](const auto& metric) { return metric.starts_with(kind); });
  return rows;
}

}  // namespace

RunOutcome outcome_of(const Run& run) {
  RunOutcome outcome;
  outcome.name = run.name, outcome.status = run.status();
  if (run.summary && !run.going_on)
    take_from_summary(outcome, *run.summary);
  else
    take_from_log(outcome, run);
  for (const char* file : {"summary.json", "hparams.yaml"})
    if (std::ranges::find(run.missing, file) != run.missing.end())
      outcome.missing.emplace_back(file);
  return outcome;
}

Comparison compared(const std::vector<Run>& runs) {
  Comparison comparison;
  for (const auto& run : runs) comparison.runs.push_back(outcome_of(run));
  comparison.outcomes = rows_of(comparison.runs);
  if (runs.size() > 1) comparison.differences = recipe_differences(runs);
  return comparison;
}

nlohmann::ordered_json json_of(const Comparison& comparison) {
  auto runs = nlohmann::ordered_json::array();
  const auto optional = [](const auto& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  for (const auto& run : comparison.runs) {
    auto metrics = nlohmann::ordered_json::object();
    for (const auto& [name, outcome] : run.metrics)
      metrics[name] = {{"last", json_number(outcome.last)},
                       {"best", outcome.best ? json_number(*outcome.best) : nullptr},
                       {"best_batch", outcome.best ? nlohmann::ordered_json(outcome.best_batch)
                                                   : nlohmann::ordered_json()}};
    runs.push_back({{"run", run.name},
                    {"status", run.status},
                    {"epochs", run.epochs},
                    {"batches", run.batches},
                    {"samples", run.samples},
                    {"seconds", run.seconds},
                    {"images_per_s", optional(run.images_per_second)},
                    {"wait_fraction", optional(run.wait_fraction)},
                    {"peak_memory_bytes", optional(run.peak_memory_bytes)},
                    {"metrics", metrics},
                    {"missing", run.missing}});
  }
  auto differences = nlohmann::ordered_json::object();
  for (const auto& difference : comparison.differences) {
    auto& values = differences[difference.key] = nlohmann::ordered_json::array();
    for (const auto& value : difference.values) values.push_back(optional(value));
  }
  return {{"runs", runs}, {"differences", differences}};
}

}  // namespace composer
