// The subcommand compare: runs side by side.
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "analysis/comparison.h"
#include "base/terminal.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/prediction_lines.h"
#include "cli/run_report.h"

namespace composer {
namespace {

/// What is not for a terminal is not cut.
int64_t output_columns() {
  constexpr int64_t any_number = 100'000;
  return isatty(STDOUT_FILENO) == 1 ? terminal_columns() : any_number;
}

}  // namespace

int compare_command(const Words& words) {
  CLI::App app(
      "Shows what runs came to, and what their recipes differ in. Of each loss and metric the "
      "last and the\nbest value; * marks the best of the runs.",
      "compare");
  Words folders;
  bool json = false;
  app.add_option("runs", folders, "folders of runs: <run_dir>/<run_name> (runs/*: all)");
  app.add_flag("--json", json, "one JSON object instead of the table");
  if (!parse(app, words)) return 0;
  const auto comparison = compared(read_runs(folders));
  if (json)
    std::cout << text_of(json_of(comparison)) << std::endl;
  else
    std::cout << text_of(comparison, output_columns());
  return 0;
}

}  // namespace composer
