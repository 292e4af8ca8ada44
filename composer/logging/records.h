// What a run tells those who keep its values: records, and where it begins, stands and ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "composer/logging/images.h"
#include "composer/run_end.h"
#include "composer/time.h"

namespace composer {

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
  Schedule schedule;
  Timestamp start;  ///< all zero for a fresh run; a sink drops what it holds of later batches ...
  bool start_evaluated =
      true;  ///< ... and, where false, an evaluation after the last of these: it is repeated
  std::vector<std::string> header;  ///< lines for people: what the run is
  std::string recipe;               ///< resolved; may be empty

  /// Whether a record of an earlier process belongs to the part of the run that a resumption keeps.
  bool keeps(std::string_view event, int64_t batch) const {
    const bool repeated = !start_evaluated && batch == start.batch && event == "eval";
    return batch <= start.batch && !repeated;
  }
};

/// What goes on between records.
struct Progress {
  /// waiting: for the process's first batch. evaluated: whole or not.
  enum class Phase { waiting, training, evaluating, evaluated };
  Phase phase;
  Timestamp time;               ///< what has been trained
  int64_t done = 0, total = 0;  ///< batches of the evaluation
};

}  // namespace composer
