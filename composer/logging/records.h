// The messages from a run to its sinks (records, start, progress and end), and the interface of
// loggers.
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
#include "nn/network/metric_sense.h"

namespace composer {

/// The name of a value that has its own record: seconds that training waited for a checkpoint.
inline constexpr std::string_view checkpoint_cost = "checkpoint/stall_seconds";

/// The values logged at one time of the run.
struct Record {
  std::string_view event;  ///< "batch", "epoch", "eval" or "save"
  Timestamp time;          ///< after the batch or epoch
  std::vector<std::pair<std::string, double>> values;
};

/// A histogram of the numbers of a tensor.
struct HistogramRecord {
  std::string name;
  Timestamp time;  ///< the time of the record that it was logged with
  double min = 0, max = 0;
  double count = 0, sum = 0, sum_of_squares = 0;
  std::vector<double> counts;  ///< counts of equally wide bins from min to max
};

/// The start of a run.
struct RunInfo {
  std::filesystem::path folder;  ///< empty for a run without a folder
  std::string run_name;
  RunLength run_length;
  Timestamp start;  ///< all zero for a new run; a sink drops its records of later batches
  /// The sets that were evaluated after batch start.batch before the checkpoint was made.
  /// Evaluations on other sets are repeated; a sink drops their records of this batch.
  std::vector<std::string> start_evaluated{std::string(main_evaluation)};
  std::vector<std::string> header;  ///< a description of the run, in lines
  std::string recipe;               ///< the resolved recipe; may be empty

  /// Whether a resumption keeps a record of an earlier process. names: those of its values. No sink
  /// keeps the cost of the checkpoint that is resumed: it was logged after the checkpoint, and may
  /// have reached only some sinks before the process ended.
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

/// Progress between records.
struct Progress {
  /// waiting: for the process's first batch. evaluated: an evaluation has ended or was interrupted.
  enum class Phase { waiting, training, evaluating, evaluated };
  Phase phase;
  Timestamp time;               ///< the training time
  int64_t done = 0, total = 0;  ///< batches of the evaluation
  std::string set{};            ///< the evaluation set: "eval" for val_dataset
};

struct RunEnd {
  std::string status;   ///< completed, interrupted or failed, as in summary.json
  std::string message;  ///< the error of a failed run; the signal of an interrupted one
};

struct LoggedImage {
  int64_t height = 0, width = 0;
  int64_t channels = 3;         ///< 3: RGB; 1: gray
  std::vector<uint8_t> pixels;  ///< [height, width, channels]
  std::string caption;          ///< may be empty
};

/// The images of one call of Logger::log_images.
struct ImageRecord {
  std::string name;
  Timestamp time;  ///< the time of the record that they were logged with
  std::vector<LoggedImage> images;
};

/// A destination of records, in order of time. An exception of these functions is logged once and
/// does not end the run; the lost item is not offered again. Exceptions of sinks in the loop, and a
/// UserError of open(), end the run.
class LogSink {
 public:
  virtual ~LogSink() = default;

  /// The name in messages.
  virtual std::string name() const { return "a logger"; }
  /// Whether the training loop itself calls the sink and waits for it. Every other sink has its own
  /// thread, which may be behind the run.
  virtual bool in_loop() const { return false; }
  /// The interval of histograms of weights and gradients, in ep, ba or sp; 0 = never.
  virtual Time histogram_interval() const { return {0, TimeUnit::batch}; }

  /// Called again later if it throws anything but UserError.
  virtual void open(const RunInfo&) {}
  virtual void write(const Record& record) = 0;
  /// Called before write() of the record that the images were logged with.
  virtual void write_images(const ImageRecord&) {}
  virtual void write_histogram(const HistogramRecord&) {}
  /// Called after every batch for a sink in the loop, before the batch's record: it must be cheap.
  /// Called for other sinks at once at every new phase, else with their records and at most ten
  /// times a second.
  virtual void progress(const Progress&) {}
  /// Called after each group of records, at checkpoints, and before run_end().
  virtual void flush() {}
  /// Called once at the end of every run, after summary.json is written, if the sink was opened.
  virtual void run_end(const RunEnd&) {}
};

}  // namespace composer
