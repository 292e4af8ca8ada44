// A run's values as a table.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "composer/logging/growing_file.h"
#include "composer/logging/log_sink.h"

namespace composer {

/// <run>/metrics.csv: a row a record, a column a value. A value that comes for the first time adds
/// its column: the file is then written anew, beside, and renamed. When a run resumes, rows of
/// batches after its start are dropped. Does nothing for a run that leaves nothing on the disk.
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

  std::filesystem::path path_;  ///< empty: nothing is kept
  std::vector<std::string> columns_;
  std::map<std::string, size_t> places_;  ///< of the columns
  size_t written_columns_ = 0;            ///< that the file's header has
  std::deque<Record> waiting_;
  int64_t dropped_ = 0;
  GrowingFile file_;
};

}  // namespace composer
