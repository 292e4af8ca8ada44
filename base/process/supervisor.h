// A group of programs that are started, read and ended together.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "base/process/child.h"
#include "base/process/line_writer.h"
#include "base/process/signals.h"

namespace composer {

struct SupervisorOptions {
  /// Seconds between asking a child to end (SIGTERM, a second Ctrl-C) and SIGKILL.
  double grace_seconds = 10;
  /// Seconds between the first request to end and SIGKILL; by default only a second one is
  /// enforced.
  double first_grace_seconds = std::numeric_limits<double>::infinity();
  /// Called before children are killed that were asked to end at `since`. Returns the time until
  /// which they are spared. Both times are steady_seconds(). Null: they are not spared.
  std::function<double(double since)> spared_until;
  /// True: the first child that fails ends the others.
  bool fail_together = true;
  /// Seconds between the failure and that end: the others may be ending by themselves.
  double settle_seconds = 0;
  /// Whether an exit status other than 0 is a failure; null: always. When a child ends by itself
  /// with a status that is neither 0 nor a failure, the others are asked to end too (SIGTERM),
  /// after settle_seconds.
  std::function<bool(int status)> fails;
  /// Called about twice a second while children run.
  std::function<void()> look;
  /// Takes each line of child `number`; null lets children write to this process's output.
  std::function<void(size_t number, Stream stream, std::string_view line)> take_line;
  /// The writers to which take_line adds lines of output and of errors; may be null. The supervisor
  /// writes their kept lines, and does not read a stream while its writer is full. They must
  /// outlive the supervisor.
  std::array<LineWriter*, 2> writers{};
};

/// Starts programs, which end no later than this object. While it lives, SIGINT, SIGTERM, SIGHUP,
/// SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to every running child; SIGTSTP stops and continues
/// the children with this process. SIGUSR2 goes to the child alone. The other signals, which ask
/// for the end, and SIGTSTP go to the child's process group. Requests to end within half a second
/// count as one: shells signal a process, then its group. After a second request, children that
/// still run after the grace time are killed. SIGPIPE is ignored in this process. One thread uses
/// the supervisor, and must live as long as the children.
class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options = {});
  /// Children that still run are asked to end, and killed after the grace time.
  ~Supervisor();

  /// Starts a child and returns its number, from 0 on. heard: its lines go to take_line, if there
  /// is one. UserError names the program when it cannot be started.
  size_t start(const Command& command, bool heard = true);
  /// Returns when every child has ended and the writers have written all, or when an end is
  /// requested while only the writers are waited for.
  void wait();
  /// Asks the children to end, and kills them after grace_seconds, by default the options'.
  void end(std::optional<double> grace_seconds = {});

  /// The exit status of a child, or 128 + the signal that ended it; -1 while it runs.
  int status(size_t number) const { return children_[number].status(); }
  /// The status of the child that failed first; 0 without a failure.
  int status() const { return first_failure_; }
  /// The children that failed before this process ended or killed them, in the order in which they
  /// ended.
  const std::vector<size_t>& failed() const { return failed_; }
  /// The signal that last asked this process to end; 0 without one.
  int asked_by() const { return asked_by_; }

 private:
  bool any_running() const;
  bool to_be_written() const;
  bool may_read(Stream stream) const;
  void wait_for_news();
  void read_and_write();
  void end_those_due();
  void pass_on(int signal);
  void stop_together();
  void ask_to_end(int signal);
  void reap();
  double seconds_to_wait() const;
  double spared_until() const;
  void kill_by(double time);
  void signal_all(int signal);
  double rest_seconds() const;

  SupervisorOptions options_;
  Signals signals_;
  std::deque<Child> children_;
  std::vector<size_t> failed_;
  bool ending_ = false;  ///< true: this process ends the children
  /// steady_seconds(). ending_since_: when the children were told that they may be killed.
  std::optional<double> asked_at_, follow_at_, end_at_, ending_since_, kill_at_;
  double next_look_ = 0;  ///< steady_seconds()
  int asked_by_ = 0;      ///< the signal that last asked for the end
  int first_failure_ = 0;
};

}  // namespace composer
