// The subcommands report and compare, and the logger report.
#include "cli/run_report.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "analysis/comparison.h"
#include "analysis/report.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/files/mailbox.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/output_file.h"
#include "cli/run_folder.h"

namespace composer {

namespace {

/// UserError for a folder that holds runs and is not itself the folder of a run.
void check_is_no_folder_of_runs(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "metrics.jsonl")) return;
  if (const auto runs = std::ssize(runs_in(folder)); runs > 0)
    throw UserError(folder.string() + ": is no run's folder, but has those of " +
                    quantity(runs, "run") + " in it; name them: " + (folder / "*").string());
}

/// The run in the folder. A run without a readable log is an error if it is the only one; otherwise
/// it is left out with a warning.
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

/// The runs in the folders, with distinct names and whether each is going on. Warns of folders that
/// are given twice and of damaged parts, and leaves them out. UserError for a folder of no run, or
/// when no folder is given.
std::vector<Run> read_runs(const std::vector<std::string>& folders) {
  if (folders.empty())
    throw UserError("name runs: their folders, <run_dir>/<run_name>; runs/* is all in runs");
  std::vector<Run> runs;
  for (const auto& folder : folders) {
    // Checked before the log is read: a run that ends meanwhile would look killed, as its summary
    // is not there yet.
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

}  // namespace

void ReportLogger::run_end(const RunEnd&) {
  if (folder_.empty()) return;
  auto runs = read_runs({folder_.string()});
  runs.front().going_on = false;  // this process still holds the folder
  write_whole(folder_ / "report.html", report_page(runs));
}

int report_command(const Words& words) {
  CLI::App app(
      "Writes a page that shows runs, finished or going on: one HTML file that needs nothing "
      "beside itself.",
      "report");
  Words folders;
  std::string output = "report.html";
  app.add_option("runs", folders, "folders of runs: <run_dir>/<run_name> (runs/*: all)");
  app.add_option("--output", output, "the page's file (default: report.html)");
  if (!parse(app, words)) return 0;
  const PageFile page("--output", output);
  page.write(report_page(read_runs(folders)));
  return 0;
}

int compare_command(const Words& words) {
  CLI::App app(
      "Shows what runs came to, and what their recipes differ in. Of each loss and metric the "
      "last and the\nbest value; * marks the best of the runs.",
      "compare");
  Words folders;
  app.add_option("runs", folders, "folders of runs: <run_dir>/<run_name> (runs/*: all)");
  const auto& json = add_json(app, "one JSON object instead of the table");
  if (!parse(app, words)) return 0;
  const auto comparison = compared(read_runs(folders));
  constexpr int64_t uncut = 100'000;
  const int64_t columns = isatty(STDOUT_FILENO) == 1 ? terminal_columns() : uncut;
  if (json)
    std::cout << json_line(json_of(comparison)) << std::endl;
  else
    std::cout << text_of(comparison, columns);
  return 0;
}

}  // namespace composer
