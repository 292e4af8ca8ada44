// The subcommand watch: a run in the terminal, while it goes on.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "analysis/run.h"
#include "analysis/terminal_plot.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files/mailbox.h"
#include "base/log.h"
#include "base/process/interrupt.h"
#include "base/terminal.h"
#include "cli/arguments.h"
#include "cli/run_folder.h"

namespace composer {
namespace {

/// Switches standard output's terminal to another screen, without cursor and with unbuffered keys,
/// Ctrl-C included. The destructor restores the terminal.
class FullScreen {
 public:
  FullScreen() {
    if (termios settings{}; tcgetattr(STDIN_FILENO, &settings) == 0) {
      before_ = settings;
      settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
      settings.c_cc[VMIN] = 0, settings.c_cc[VTIME] = 0;
      tcsetattr(STDIN_FILENO, TCSANOW, &settings);
    }
    put("\x1b[?1049h\x1b[?25l");
  }
  ~FullScreen() {
    put("\x1b[?25h\x1b[?1049l");
    if (before_) tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
  }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  struct Size {
    int64_t columns = 80, rows = 24;
    bool operator==(const Size&) const = default;
  };
  /// The present size.
  static Size size() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
      return {};
    return {size.ws_col, size.ws_row};
  }

  /// Replaces the screen's contents by lines, which must fit; without colours where shows_colors()
  /// is false.
  void show(const std::vector<std::string>& lines) const {
    std::string screen = "\x1b[H";
    for (size_t i = 0; i < lines.size(); ++i)
      screen += (colors_ ? lines[i] + "\x1b[0m" : without_colors(lines[i])) + "\x1b[K" +
                (i + 1 < lines.size() ? "\r\n" : "");
    put(screen + "\x1b[J");
  }

  /// Waits at most this many seconds for a key; nothing when none came, 'q' when none can come any
  /// more.
  std::optional<char> key(double seconds) const {
    pollfd input{before_ ? STDIN_FILENO : -1, POLLIN, 0};
    if (poll(&input, 1, static_cast<int>(seconds * 1000)) <= 0) return {};
    char byte = 0;
    if (read(STDIN_FILENO, &byte, 1) == 1) return byte;
    return 'q';
  }

 private:
  /// Ignores errors: when the terminal is gone, key() tells.
  static void put(std::string_view text) {
    while (!text.empty()) {
      const auto written = ::write(STDOUT_FILENO, text.data(), text.size());
      if (written <= 0) return;
      text.remove_prefix(static_cast<size_t>(written));
    }
  }

  const bool colors_ = shows_colors(STDOUT_FILENO);
  std::optional<termios> before_;  ///< settings of standard input, if that is a terminal
};

constexpr double look_interval = 0.2, papers_interval = 1;  ///< seconds
constexpr char control_c = 3;

/// Waits until a run has begun in the folder. False when a signal came first; UserError for an
/// existing folder without a run.
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

/// A run folder that is read again and again.
class FollowedRun {
 public:
  explicit FollowedRun(std::filesystem::path folder)
      : folder_(std::move(folder)), tail_(folder_ / "metrics.jsonl") {
    read_papers();
    tail_.update(run_.log);
  }

  const Run& run() const { return run_; }

  /// Reads the folder again. Returns whether anything changed.
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
    // A summary is that of the present run only when no process holds the folder.
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

/// Without a terminal: prints a line for each epoch and evaluation until the run ends.
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
