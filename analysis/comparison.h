// Runs side by side: what they came to and what sets their recipes apart.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analysis/recipe_difference.h"
#include "analysis/run.h"

namespace composer {

/// A metric over a run: its last value and its best one. Of metrics/train/... these are means over
/// whole epochs; before the first epoch's end, last is the mean so far and there is no best.
struct MetricOutcome {
  double last = 0;
  std::optional<double> best;
  int64_t best_batch = 0;  ///< after which the best was reached
};

struct RunOutcome {
  std::string name, status;
  int64_t epochs = 0, batches = 0, samples = 0;
  double seconds = 0;
  std::optional<double> images_per_second;  ///< of training alone
  std::optional<double> wait_fraction;
  std::optional<int64_t> peak_memory_bytes;
  std::map<std::string, MetricOutcome> metrics;  ///< losses and metrics
  std::vector<std::string> missing;              ///< of summary.json and hparams.yaml
};

/// By the summary; where there is none, and of a run that goes on, by what is logged.
RunOutcome outcome_of(const Run& run);

/// One row of a table that has a column a run.
struct ComparisonRow {
  std::string label;
  std::vector<std::string> cells;  ///< of each run; empty where it has none
  std::optional<size_t> winner;    ///< the run whose value is best, where one is
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

/// A table for a terminal of so many columns, a line a row. Runs that there is no room for follow
/// below; names and settings are shortened, numbers are not.
std::string text_of(const Comparison& comparison, int64_t columns);

}  // namespace composer
