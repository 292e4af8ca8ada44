// A logger that writes a run's values as a table.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "composer/logging/growing_file.h"
#include "composer/logging/log_sink.h"

namespace composer {

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
