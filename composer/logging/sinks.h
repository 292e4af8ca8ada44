// The loop's own sinks (metrics.jsonl, the values of summary.json, images, and a check of the
// loss), and a logger that writes a table.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/run_folder.h"
#include "composer/logging/growing_file.h"
#include "composer/logging/records.h"

namespace composer {

/// Writes metrics.jsonl: one JSON object per record. When a run resumes, lines of later batches are
/// dropped, so that each batch occurs once. Lines that a full disk does not take are written later.
class JsonlSink : public LogSink {
 public:
  std::string name() const override { return "metrics.jsonl"; }
  void open(const RunInfo& info) override;
  void write(const Record& record) override;
  void flush() override { file_.write(); }
  void run_end(const RunEnd&) override { file_.finish(); }

 private:
  GrowingFile file_;
};

/// The record as one JSON object, which is a line of metrics.jsonl.
nlohmann::ordered_json json_of(const Record& record);

/// Keeps the last and the best value of each metric over the whole run. After a resumption the kept
/// lines of metrics.jsonl count.
class SummarySink : public LogSink {
 public:
  bool in_loop() const override { return true; }
  void open(const RunInfo& info) override;
  void write(const Record& record) override;

  const std::map<std::string, double>& last() const { return last_; }
  const std::map<std::string, Summary::Best>& best() const { return best_; }

 private:
  void take(std::string_view event, int64_t batch, const std::string& name, double value);

  std::map<std::string, double> last_;
  std::map<std::string, Summary::Best> best_;
};

/// images/<name>-ba<batch>-<number>.png, and images/index.json: {"images": [{"file", "name",
/// "epoch", "batch", "caption"}]}, with files relative to the run's folder. When a run resumes,
/// images of later batches are dropped from the index. Images that cannot be written are left out
/// with a warning.
class ImageFolder : public LogSink {
 public:
  std::string name() const override { return "images"; }
  void open(const RunInfo& info) override;
  void write(const Record&) override {}
  void write_images(const ImageRecord& record) override;

 private:
  void put(const ImageRecord& record);

  std::filesystem::path folder_;  ///< the run's folder
  std::string index_;             ///< JSON list of the images so far
};

/// Checks the losses that the logger writes, so that no step waits for the device. A bad loss is
/// known some batches later, unless see() was called with it before.
class LossGuard : public LogSink {
 public:
  struct Bad {
    Timestamp time;  ///< after the batch
    double loss;
  };

  /// tolerated: the number of bad batches in a row that are ignored, which loss scaling may need.
  explicit LossGuard(int64_t tolerated) : tolerated_(tolerated) {}

  /// Checks a batch's loss, if reading it does not wait for the device. Batches come in ascending
  /// order; a second call for a batch does nothing.
  void see(const Timestamp& time, double loss) {
    if (time.batch <= last_) return;
    last_ = time.batch;
    in_a_row_ = std::isfinite(loss) ? 0 : in_a_row_ + 1;
    if (in_a_row_ > tolerated_ && !std::exchange(told_, true)) bad_ = {time, loss};
  }

  bool in_loop() const override { return true; }
  void write(const Record& record) override {
    for (const auto& [name, value] : record.values)
      if (name == "loss/train") see(record.time, value);
  }

  /// The batch with the first bad loss that is not tolerated; nothing on later calls.
  std::optional<Bad> take() { return std::exchange(bad_, std::nullopt); }

 private:
  int64_t tolerated_, in_a_row_ = 0;
  int64_t last_ = -1;  ///< the last checked batch
  bool told_ = false;
  std::optional<Bad> bad_;
};

/// Writes <run>/metrics.csv: one row per record, one column per value. A new value adds a column:
/// the file is then rewritten in an AtomicFile. When a run resumes, rows of later batches are
/// dropped. Does nothing for a run without a folder.
class Csv : public LogSink {
 public:
  std::string name() const override { return "csv"; }
  void open(const RunInfo& info) override;
  void write(const Record& record) override;
  void flush() override;
  void run_end(const RunEnd& end) override;

 private:
  std::string row(const Record& record) const;
  void widen();

  std::filesystem::path path_;  ///< empty: the run has no folder
  std::vector<std::string> columns_;
  std::map<std::string, size_t> places_;  ///< the index of each column
  size_t written_columns_ = 0;            ///< the number of columns in the file's header
  std::deque<Record> waiting_;
  int64_t dropped_ = 0;
  GrowingFile file_;
};

}  // namespace composer
