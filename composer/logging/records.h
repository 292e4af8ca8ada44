// What a run tells those who keep its values: records, and where it begins, stands and ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "composer/logging/images.h"
#include "composer/logging/run_end.h"
#include "nn/network/metric_sense.h"

namespace composer {

/// Seconds that training stood still for a checkpoint: a record of its own.
inline constexpr std::string_view checkpoint_cost = "checkpoint/stall_seconds";

/// What was logged at one place of the run.
struct Record {
  std::string_view event;  ///< "batch", "epoch", "eval" or "save"
  Timestamp time;          ///< after the batch or epoch
  std::vector<std::pair<std::string, double>> values;
};

/// How the numbers of a tensor are spread.
struct HistogramRecord {
  std::string name;
  Timestamp time;  ///< of the record that it was logged with
  double min = 0, max = 0;
  double count = 0, sum = 0, sum_of_squares = 0;
  std::vector<double> counts;  ///< of equally wide parts from min to max
};

/// What a sink is told when the run starts.
struct RunInfo {
  std::filesystem::path folder;  ///< empty for a run that leaves nothing on the disk
  std::string run_name;
  RunLength run_length;
  Timestamp start;  ///< all zero for a fresh run; a sink drops what it holds of later batches ...
  /// ... and evaluations after the last of these on other sets than these: they are repeated.
  std::vector<std::string> start_evaluated{std::string(main_evaluation)};
  std::vector<std::string> header;  ///< lines for people: what the run is
  std::string recipe;               ///< resolved; may be empty

  /// Whether a record of an earlier process belongs to the part of the run that a resumption keeps.
  /// names: of its values. The cost of the checkpoint that the run goes on from was logged after
  /// it, and may have reached one sink and not another before the process ended: no sink keeps it.
  bool keeps(std::string_view event, int64_t batch, std::span<const std::string> names = {}) const {
    if (batch == start.batch && std::ranges::find(names, checkpoint_cost) != names.end())
      return false;
    if (event != "eval" || batch != start.batch) return batch <= start.batch;
    bool of_any = false;
    for (const auto& name : names) {
      const auto set = evaluation_set(name);
      if (std::ranges::find(start_evaluated, set) != start_evaluated.end()) return true;
      of_any = of_any || !set.empty();
    }
    return !of_any && !start_evaluated.empty();
  }
};

/// What goes on between records.
struct Progress {
  /// waiting: for the process's first batch. evaluated: whole or not.
  enum class Phase { waiting, training, evaluating, evaluated };
  Phase phase;
  Timestamp time;               ///< what has been trained
  int64_t done = 0, total = 0;  ///< batches of the evaluation
  std::string set{};            ///< that is evaluated on: "eval" for val_dataset
};

}  // namespace composer
