// The page that shows a run, as a logger.
#pragma once

#include <filesystem>
#include <string>

#include "composer/logging/logger.h"

namespace composer {

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
