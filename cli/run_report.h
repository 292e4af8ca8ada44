// The logger that writes a page about the run.
#pragma once

#include <filesystem>
#include <string>

#include "composer/logging/records.h"

namespace composer {

/// The logger `report`: <run>/report.html, written after the summary when the run ends.
class ReportLogger : public LogSink {
 public:
  std::string name() const override { return "report"; }
  void open(const RunInfo& info) override { folder_ = info.folder; }
  void write(const Record&) override {}
  void run_end(const RunEnd& end) override;

 private:
  std::filesystem::path folder_;  ///< empty for a run that leaves nothing on the disk
};

}  // namespace composer
