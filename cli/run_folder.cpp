// Run folders that a user names, and the subcommand request, which sends a request to a running
// training.
#include "cli/run_folder.h"

#include <algorithm>
#include <initializer_list>

#include "base/error.h"
#include "base/log.h"
#include "base/params/value.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "composer/run/run_requests.h"

namespace composer {

namespace fs = std::filesystem;

std::vector<std::string> runs_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (is_run(entry->path())) names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

bool is_run(const fs::path& folder) {
  std::error_code none;
  return std::ranges::any_of(
      std::initializer_list<const char*>{".lock", "hparams.yaml", "metrics.jsonl"},
      [&](const char* name) { return fs::exists(folder / name, none); });
}

void check_run_folder(const std::string& folder) {
  std::error_code none;
  const fs::path path = fs::path(folder + "/").parent_path();
  if (fs::is_directory(path, none)) {
    const auto names = is_run(path) ? std::vector<std::string>() : runs_in(path);
    if (names.empty()) return;
    throw UserError(folder + ": is no run's folder, but has those of " + first_few(names));
  }
  const auto beside = path.has_parent_path() ? path.parent_path() : fs::path("runs");
  const auto name = nearest(path.filename().string(), runs_in(beside));
  throw UserError(folder + ": is no run folder" +
                  (name.empty() ? "; that is <run_dir>/<run_name>, for instance runs/first"
                                : "; did you mean " + (beside / name).string() + "?"));
}

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
