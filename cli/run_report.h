// Runs of folders, and the page that shows them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "analysis/run.h"
#include "composer/logging/logger.h"

namespace composer {

/// The runs, named apart, with whether each is going on; one that is named twice once, with a
/// warning. What is damaged is left out with a warning, of several runs also one without a log that
/// can be read. UserError naming a folder that is no run's; where none is named, what to name.
std::vector<Run> read_runs(const std::vector<std::string>& folders);

/// Writes their report (analysis/report.h). UserError when the file cannot be written.
void write_report(const std::vector<std::string>& folders, const std::filesystem::path& file);

/// The logger `report`: <run>/report.html, written when the run has ended and left its summary.
class ReportLogger : public LogSink {
 public:
  std::string name() const override { return "report"; }
  void open(const RunInfo& info) override { folder_ = info.folder; }
  void write(const Record&) override {}
  void run_end(const RunEnd& end) override;

 private:
  std::filesystem::path folder_;  ///< empty: nothing is left on the disk
};

}  // namespace composer
