// The sinks behind the files of a run: metrics.jsonl, and the values for summary.json.
#pragma once

#include <fstream>
#include <map>
#include <string>

#include "composer/logging/logger.h"
#include "composer/storage/run_folder.h"

namespace composer {

/// metrics.jsonl: one JSON object a record. When a run resumes, lines of batches after its start
/// are dropped, so that each batch stands there once.
class JsonlSink : public LogSink {
 public:
  void open(const RunInfo& info) override;
  void write(const Record& record) override;
  void flush() override;

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

/// The last and the best value of each metric, over the whole run: what stood in metrics.jsonl
/// before a resumption counts.
class SummarySink : public LogSink {
 public:
  void open(const RunInfo& info) override;
  void write(const Record& record) override;

  const std::map<std::string, double>& last() const { return last_; }
  const std::map<std::string, Summary::Best>& best() const { return best_; }

 private:
  void take(std::string_view event, int64_t batch, const std::string& name, double value);

  std::map<std::string, double> last_;
  std::map<std::string, Summary::Best> best_;
};

}  // namespace composer
