// Runs side by side: what they came to and what sets their recipes apart.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analysis/run.h"

namespace composer {

struct RecipeDifference {
  std::string key;       ///< dotted
  std::string settings;  ///< the settings of a component on which all runs that have it agree
  std::vector<std::optional<std::string>>
      values;  ///< one per run; nothing for a run without the key
};

/// The keys whose values differ, in the recipes' order, without the runs' names and folders. A
/// component that some runs lack has an entry of its own, "algorithms.blurpool", with the value
/// "on".
std::vector<RecipeDifference> recipe_differences(const std::vector<Run>& runs);

/// The last and the best value of a metric in a run. For metrics/train/... both are means over
/// whole epochs; before the end of the first epoch, `last` is the mean so far and there is no best.
struct MetricOutcome {
  double last = 0;
  std::optional<double> best;
  int64_t best_batch = 0;  ///< the batch after which the best value was logged
};

struct RunOutcome {
  std::string name, status;
  int64_t epochs = 0, batches = 0, samples = 0;
  double seconds = 0;
  std::optional<double> images_per_second;  ///< evaluation is not counted
  std::optional<double> wait_fraction;
  std::optional<int64_t> peak_memory_bytes;
  std::map<std::string, MetricOutcome> metrics;  ///< losses and metrics
  std::vector<std::string> missing;              ///< summary.json and hparams.yaml, if not there
};

/// Read from the summary; from the log for a run that goes on or has no summary.
RunOutcome outcome_of(const Run& run);

/// One row of a table with a column per run.
struct ComparisonRow {
  std::string label;
  std::vector<std::string> cells;  ///< one per run; empty for a run without the value
  std::optional<size_t> winner;    ///< index of the run whose value is best, if there is one
};

struct Comparison {
  std::vector<RunOutcome> runs;
  std::vector<ComparisonRow> outcomes;
  std::vector<RecipeDifference> differences;
};

Comparison compared(const std::vector<Run>& runs);

/// {"runs": [{"run", "status", "epochs", ..., "metrics": {name: {"last", "best", "best_batch"}},
/// "missing": []}], "differences": {key: [value or null of each run]}}
nlohmann::ordered_json json_of(const Comparison& comparison);

/// A table for a terminal of `columns` columns. Runs that do not fit follow below; names and
/// settings are shortened, numbers are not.
std::string text_of(const Comparison& comparison, int64_t columns);

}  // namespace composer
