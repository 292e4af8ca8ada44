// The subcommand request: asks something of a run that is going on.
#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/params/value.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/run_folder.h"
#include "composer/run/run_requests.h"

namespace composer {

int request_command(const Words& words) {
  CLI::App app(
      "Asks a run that is going on, on this machine or on another one with the same folder. It "
      "looks "
      "about\nonce a second, when a batch has ended.",
      "request");
  std::string folder, name;
  double seconds = 0;
  app.add_option("run", folder, "the run's folder")->required();
  app.add_option("name", name,
                 "checkpoint: to save; stop: to save and end; trace: to trace the next 5 steps")
      ->check(choices(RunRequests::names()));
  app.add_option("--wait", seconds,
                 "seconds to wait until that is done; without it, the request is left there");
  if (!parse(app, words)) return 0;
  const auto& names = RunRequests::names();
  const auto is_request = [&](const std::string& word) {
    return std::ranges::find(names, word) != names.end();
  };
  if (name.empty() && is_request(folder))
    throw UserError("composer request: which run? composer request RUN_FOLDER " + folder);
  if (name.empty())
    throw UserError("composer request: what is asked of " + folder +
                    "? There are: " + joined(names));
  if (!is_request(name) && is_request(folder))
    throw UserError("composer request: the run comes first: composer request " + name + " " +
                    folder);
  if (!is_request(name))
    throw UserError("composer request: there is no request '" + name + "'" +
                    suggestion(name, names));
  if (!(seconds >= 0)) throw UserError("--wait: must be at least 0 seconds");

  check_run_folder(folder);
  const auto answer = send_request(folder, name, {}, seconds);
  if (answer && !answer->done) throw RunError(folder + ": " + answer->text);
  log::info(folder + ": " + (answer ? answer->text : "asked for " + name));
  return 0;
}

}  // namespace composer
