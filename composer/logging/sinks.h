// The sinks for a run's files: metrics.jsonl, the values of summary.json, and images.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/files/run_folder.h"
#include "composer/logging/growing_file.h"
#include "composer/logging/log_sink.h"

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

}  // namespace composer
