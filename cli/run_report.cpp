#include "cli/run_report.h"

#include <algorithm>
#include <optional>

#include "analysis/report.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/files/mailbox.h"
#include "base/log.h"
#include "cli/page_file.h"

namespace composer {

namespace {

/// UserError for a folder that is no run's but has runs in it.
void check_is_no_folder_of_runs(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(folder) || fs::exists(folder / "metrics.jsonl")) return;
  std::error_code problem;
  int64_t runs = 0;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    std::error_code none;
    runs += fs::exists(entry->path() / "metrics.jsonl", none) ? 1 : 0;
  }
  if (runs > 0)
    throw UserError(folder.string() + ": is no run's folder, but has those of " +
                    std::to_string(runs) + (runs == 1 ? " run" : " runs") +
                    " in it; name them: " + (folder / "*").string());
}

/// Nothing where it has no log that can be read, and others are shown: a warning says so.
std::optional<Run> read_one(const std::string& folder, bool alone) {
  check_is_no_folder_of_runs(folder);
  try {
    return read_run(folder);
  } catch (const UserError& error) {
    if (alone || !std::filesystem::is_directory(folder)) throw;
    log::warn(error.what() + std::string("; the run is left out"));
    return {};
  }
}

}  // namespace

std::vector<Run> read_runs(const std::vector<std::string>& folders) {
  if (folders.empty())
    throw UserError("name runs: their folders, <run_dir>/<run_name>; runs/* is all in runs");
  std::vector<Run> runs;
  for (const auto& folder : folders) {
    // Asked first: a run that ends while its log is read has no summary yet, and was not killed.
    const bool going_on = owner_of(folder).has_value();
    auto found = read_one(folder, folders.size() == 1);
    if (!found) continue;
    auto& run = *found;
    for (const auto& damage : run.damage) log::warn(damage);
    if (std::ranges::find(runs, run.folder, &Run::folder) != runs.end()) {
      log::warn(folder + ": is named twice, and shown once");
      continue;
    }
    runs.push_back(std::move(run));
    runs.back().going_on = going_on;
  }
  if (runs.empty()) throw UserError("none of the folders has a metrics.jsonl that can be read");
  name_apart(runs);
  return runs;
}

void write_report(const std::vector<std::string>& folders, const std::filesystem::path& file) {
  const PageFile page("--output", file);
  page.write(report_page(read_runs(folders)));
}

void ReportLogger::run_end(const RunEnd&) {
  if (folder_.empty()) return;
  auto runs = read_runs({folder_.string()});
  runs.front().going_on = false;  // its folder is still its process's
  write_whole(folder_ / "report.html", report_page(runs));
}

}  // namespace composer
