#include "cli/run_report.h"

#include <algorithm>

#include "analysis/report.h"
#include "composer/logging/log.h"
#include "composer/storage/atomic_file.h"
#include "composer/storage/mailbox.h"

namespace composer {

std::vector<Run> read_runs(const std::vector<std::string>& folders) {
  std::vector<Run> runs;
  for (const auto& folder : folders) {
    auto run = read_run(folder);
    if (std::ranges::find(runs, run.folder, &Run::folder) != runs.end()) {
      log::warn(folder + ": is named twice, and shown once");
      continue;
    }
    runs.push_back(std::move(run));
    runs.back().going_on = owner_of(folder).has_value();
  }
  name_apart(runs);
  return runs;
}

void write_report(const std::vector<std::string>& folders, const std::filesystem::path& file) {
  write_whole(file, report_page(read_runs(folders)));
}

void ReportLogger::run_end(const RunEnd&) {
  if (folder_.empty()) return;
  auto runs = read_runs({folder_.string()});
  runs.front().going_on = false;  // its folder is still its process's
  write_whole(folder_ / "report.html", report_page(runs));
}

}  // namespace composer
