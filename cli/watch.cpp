// The subcommand watch: a run in the terminal, while it goes on.
#include <unistd.h>

#include <iostream>
#include <thread>

#include "analysis/run_log.h"
#include "analysis/watch_screen.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files/mailbox.h"
#include "base/log.h"
#include "base/process/interrupt.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/full_screen.h"
#include "cli/run_folder.h"

namespace composer {
namespace {

constexpr double look_interval = 0.2, papers_interval = 1;  ///< seconds
constexpr char control_c = 3;

/// Returns once a run has begun there, which a folder that is there already must show. False where
/// a signal came first.
bool wait_for_run(const std::filesystem::path& folder) {
  if (is_run(folder)) return true;
  if (std::filesystem::exists(folder))
    throw UserError(folder.string() +
                    ": is no run's folder; that is <run_dir>/<run_name>, with a metrics.jsonl");
  log::info("waiting for " + folder.string() + ", which is not there yet; Ctrl-C leaves");
  const InterruptGuard guard;
  while (received_signal() == 0 && !is_run(folder))
    std::this_thread::sleep_for(std::chrono::duration<double>(look_interval));
  return received_signal() == 0;
}

/// A run's folder, looked at again and again.
class FollowedRun {
 public:
  explicit FollowedRun(std::filesystem::path folder)
      : folder_(std::move(folder)), tail_(folder_ / "metrics.jsonl") {
    read_papers();
    tail_.update(run_.log);
  }

  const Run& run() const { return run_; }

  /// Whether there is something new.
  bool look() {
    bool changed = false;
    if (steady_seconds() - papers_read_ > papers_interval) changed = read_papers();
    return tail_.update(run_.log) || changed;
  }

 private:
  bool read_papers() {
    const auto before = run_.status();
    auto log = std::move(run_.log);
    const bool described = run_.description.has_value();
    // Whose end the summary is of is known only where nobody has the folder.
    const bool going_on = owner_of(folder_).has_value();
    run_ = read_run_papers(folder_);
    run_.going_on = going_on;
    run_.log = std::move(log);
    papers_read_ = steady_seconds();
    return run_.status() != before || run_.description.has_value() != described;
  }

  std::filesystem::path folder_;
  RunLogTail tail_;
  Run run_;
  double papers_read_ = 0;
};

int watch_on_screen(FollowedRun& followed) {
  const InterruptGuard guard;
  const FullScreen screen;
  FullScreen::Size shown{0, 0};
  bool changed = true;
  while (received_signal() == 0) {
    const auto size = screen.size();
    if (changed || !(size == shown))
      screen.show(watch_screen(followed.run(), size.columns, size.rows));
    shown = size;
    const auto key = screen.key(look_interval);
    if (key == 'q' || key == 'Q' || key == control_c) return 0;
    changed = followed.look();
  }
  return 128 + received_signal();
}

/// Where there is no terminal: a line an epoch and evaluation, until the run ends.
int watch_in_lines(FollowedRun& followed) {
  const InterruptGuard guard;
  size_t told = 0;
  while (received_signal() == 0) {
    const bool ended = !followed.run().going_on;
    const auto& log = followed.run().log;
    if (told > log.size()) told = 0;
    for (; told < log.size(); ++told)
      if (const auto line = watch_line(log[told]); !line.empty()) std::cout << line << std::endl;
    if (ended) {
      const auto& run = followed.run();
      const auto reason = run.summary && !run.going_on ? run.summary->message : std::string();
      std::cout << run.name << ": " << run.status() << (reason.empty() ? "" : ": " + reason)
                << std::endl;
      return 0;
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(look_interval));
    followed.look();
  }
  return 128 + received_signal();
}

}  // namespace

int watch_command(const Words& words) {
  CLI::App app(
      "Follows a run, or shows one that has ended: curves, progress, the last evaluations. It "
      "waits for one\nwhose folder is not there yet. q or Ctrl-C leaves. Without a terminal: a "
      "line "
      "an epoch and\nevaluation, until the run ends.",
      "watch");
  std::string folder;
  app.add_option("run", folder, "the run's folder")->required();
  if (!parse(app, words)) return 0;
  if (!wait_for_run(folder)) return 128 + received_signal();
  FollowedRun followed(folder);
  return isatty(STDOUT_FILENO) == 1 ? watch_on_screen(followed) : watch_in_lines(followed);
}

}  // namespace composer
