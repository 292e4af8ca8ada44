#include "cli/trace_now.h"

#include <iostream>

#include "base/error.h"
#include "base/files/mailbox.h"
#include "cli/arguments.h"
#include "cli/run_folder.h"

namespace composer {

int trace_now_command(const Words& words) {
  CLI::App app(
      "Has a run that is going on trace its next steps, after one to warm up, and prints the "
      "files, "
      "one of\neach rank. Training goes on to the same bytes. The recipe's profiler.record_shapes "
      "and\nprofiler.profile_memory say what is in them.",
      "trace now");
  std::string folder;
  int64_t steps = 5;
  double seconds = 600;
  app.add_option("run", folder, "the run's folder")->required();
  app.add_option("--steps", steps, "how many, from 1 to 1000")->capture_default_str();
  app.add_option("--wait", seconds, "most seconds to wait for the files")->capture_default_str();
  if (!parse(app, words)) return 0;
  if (steps < 1 || steps > 1000) throw UserError("--steps: must be from 1 to 1000");
  if (!(seconds > 0)) throw UserError("--wait: must be above 0 seconds");

  check_run_folder(folder);
  const auto answer = send_request(folder, "trace", {{"steps", std::to_string(steps)}}, seconds);
  if (!answer->done) throw RunError(folder + ": " + answer->text);
  std::cout << answer->text << '\n';
  return 0;
}

}  // namespace composer
