// The subcommand report: a page that shows runs.
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/run_report.h"

namespace composer {

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
  write_report(folders, output);
  return 0;
}

}  // namespace composer
