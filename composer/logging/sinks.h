// The sinks behind the files of a run: metrics.jsonl, and the values for summary.json.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/files/run_folder.h"
#include "composer/logging/growing_file.h"
#include "composer/logging/log_sink.h"
#include "composer/logging/logger.h"

namespace composer {

/// metrics.jsonl: one JSON object a record. When a run resumes, lines of batches after its start
/// are dropped, so that each batch stands there once. What a full disk does not take waits for
/// room.
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

/// The record as one JSON object: what is a line of metrics.jsonl.
nlohmann::ordered_json json_of(const Record& record);

/// The last and the best value of each metric, over the whole run: what stood in metrics.jsonl
/// before a resumption counts.
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
/// "epoch", "batch", "caption"}]}, files as seen from the run's folder. When a run resumes, what is
/// of later batches is forgotten. What cannot be written is left out with a warning.
class ImageFolder : public LogSink {
 public:
  std::string name() const override { return "images"; }
  void open(const RunInfo& info) override;
  void write(const Record&) override {}
  void write_images(const ImageRecord& record) override;

 private:
  void put(const ImageRecord& record);

  std::filesystem::path folder_;  ///< the run's
  std::string index_;             ///< JSON of the images so far: a list
};

}  // namespace composer
