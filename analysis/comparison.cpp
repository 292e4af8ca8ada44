#include "analysis/comparison.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/figure_text.h"
#include "composer/logging/json_number.h"
#include "composer/logging/metric_sense.h"
#include "composer/logging/terminal.h"

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
      const auto [found, fresh] =
          outcome.metrics.try_emplace(name, MetricOutcome{value, value, entry.batch});
      auto& metric = found->second;
      metric.last = value;
      const bool mean_of_part = entry.event == "batch" && name.starts_with("metrics/");
      if (!fresh && !mean_of_part && improves(name, value, metric.best))
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
                                ? MetricOutcome{value, value, summary.batches}
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

/// The run whose value of the metric is best; nothing where two share it.
template <class Value>
std::optional<size_t> winner_of(const std::vector<RunOutcome>& runs, const std::string& metric,
                                const Value& value) {
  std::optional<size_t> best;
  bool shared = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto found = runs[i].metrics.find(metric);
    if (found == runs[i].metrics.end() || std::isnan(value(found->second))) continue;
    if (!best) {
      best = i;
      continue;
    }
    const double before = value(runs[*best].metrics.at(metric));
    if (value(found->second) == before) shared = true;
    if (improves(metric, value(found->second), before)) best = i, shared = false;
  }
  return shared || runs.size() < 2 ? std::nullopt : best;
}

void add_metric_rows(std::vector<ComparisonRow>& rows, const std::vector<RunOutcome>& runs,
                     const std::string& metric) {
  const auto cell = [&](const RunOutcome& run, const auto& text) {
    const auto found = run.metrics.find(metric);
    return found == run.metrics.end() ? std::string() : text(found->second);
  };
  rows.push_back(row_of(metric, runs, [&](const auto& run) {
    return cell(run, [](const MetricOutcome& outcome) { return figure(outcome.last); });
  }));
  rows.back().winner =
      winner_of(runs, metric, [](const MetricOutcome& outcome) { return outcome.last; });
  rows.push_back(row_of("  best, at batch", runs, [&](const auto& run) {
    return cell(run, [](const MetricOutcome& outcome) {
      return figure(outcome.best) + " @ " + figure(static_cast<double>(outcome.best_batch), 9);
    });
  }));
  rows.back().winner =
      winner_of(runs, metric, [](const MetricOutcome& outcome) { return outcome.best; });
}

std::vector<ComparisonRow> rows_of(const std::vector<RunOutcome>& runs) {
  const auto count = [](int64_t value) { return figure(static_cast<double>(value), 9); };
  std::vector<ComparisonRow> rows{
      row_of("status", runs, [](const auto& run) { return run.status; }),
      row_of("epochs", runs, [&](const auto& run) { return count(run.epochs); }),
      row_of("batches", runs, [&](const auto& run) { return count(run.batches); }),
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
  for (const char* kind : {"metrics/eval/", "metrics/train/", "loss/"})
    for (const auto& metric : metrics)
      if (metric.starts_with(kind)) add_metric_rows(rows, runs, metric);
  return rows;
}

std::string padded(const std::string& text, int64_t columns, bool to_the_right) {
  const auto room = std::max<int64_t>(columns - columns_of(text), 0);
  const std::string space(static_cast<size_t>(room), ' ');
  return to_the_right ? space + text : text + space;
}

std::string shortened(const std::string& text, int64_t columns) {
  return columns_of(text) <= columns ? text : first_columns(text, columns - 1) + "…";
}

/// The rows of a terminal's table: labels, then a column a run.
struct TextTable {
  std::vector<std::string> labels;
  std::vector<std::vector<std::string>> cells;

  void add(const std::string& label, const std::vector<std::string>& row) {
    labels.push_back(label), cells.push_back(row);
  }

  std::string text(int64_t columns) const {
    int64_t first = 0;
    for (const auto& label : labels) first = std::max(first, columns_of(label));
    const auto count = static_cast<int64_t>(cells.front().size());
    const auto most = std::max<int64_t>((columns - first) / std::max<int64_t>(count, 1) - 2, 10);
    std::vector<int64_t> widths(static_cast<size_t>(count), 1);
    for (const auto& row : cells)
      for (size_t i = 0; i < row.size(); ++i)
        widths[i] = std::clamp(columns_of(row[i]), widths[i], most);
    std::string all;
    for (size_t row = 0; row < labels.size(); ++row) {
      std::string line = padded(labels[row], first, false);
      for (size_t i = 0; i < widths.size(); ++i)
        line += "  " + padded(shortened(cells[row][i], widths[i]), widths[i], true);
      line.erase(line.find_last_not_of(' ') + 1);
      all += line + "\n";
    }
    return all;
  }
};

}  // namespace

RunOutcome outcome_of(const Run& run) {
  RunOutcome outcome;
  outcome.name = run.name, outcome.status = run.status();
  if (run.summary)
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
                       {"best", json_number(outcome.best)},
                       {"best_batch", outcome.best_batch}};
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

std::string text_of(const Comparison& comparison, int64_t columns) {
  TextTable table;
  std::vector<std::string> names, gaps(comparison.runs.size());
  for (const auto& run : comparison.runs) names.push_back(run.name);
  table.add("", names);
  for (const auto& row : comparison.outcomes) {
    auto cells = row.cells;
    if (row.winner) cells[*row.winner] = "* " + cells[*row.winner];
    table.add(row.label, cells);
  }
  if (!comparison.differences.empty()) table.add("", gaps), table.add("recipes differ in", gaps);
  for (const auto& difference : comparison.differences) {
    std::vector<std::string> cells;
    for (const auto& value : difference.values) cells.push_back(value.value_or("-"));
    table.add("  " + difference.key, cells);
  }
  std::string text = table.text(columns);
  for (const auto& run : comparison.runs)
    for (const auto& file : run.missing) text += run.name + ": has no " + file + "\n";
  return text;
}

}  // namespace composer
