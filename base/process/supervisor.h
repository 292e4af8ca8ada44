// Programs that belong together: started, heard and ended as one.
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
  /// Between asking a child to end (SIGTERM, a second Ctrl-C) and SIGKILL.
  double grace_seconds = 10;
  /// Between the first request for the end and SIGKILL; by default only a second one is enforced.
  double first_grace_seconds = std::numeric_limits<double>::infinity();
  /// Asked as children are to be killed that `since` then have been asked to end, by this process's
  /// signals or by it: until when they are spared. Both in seconds of the steady clock. Null: they
  /// are not.
  std::function<double(double since)> spared_until;
  /// The first child that fails ends the others.
  bool fail_together = true;
  /// So long after it failed: they may be ending by themselves.
  double settle_seconds = 0;
  /// Which statuses are failures; null: all but 0. A child that ends with another one by itself
  /// asks the others to end too (SIGTERM), after settle_seconds.
  std::function<bool(int status)> fails;
  /// Called about twice a second while children run.
  std::function<void()> look;
  /// Takes each line of child `number`; null to let children write where this process writes.
  std::function<void(size_t number, Stream stream, std::string_view line)> take_line;
  /// Where take_line leaves the lines of output and of errors, if it does: what waits there is
  /// written meanwhile, and a stream is not read while its writer is full. They outlive the
  /// supervisor.
  std::array<LineWriter*, 2> writers{};
};

/// Starts programs and sees them to their end, which is no later than its own. While it lives,
/// SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to every child that runs, each once, as
/// the number that came; SIGTSTP stops and continues them with this process. SIGUSR2 goes to the
/// child alone; the others, which ask for the end, and SIGTSTP go to all that a child has started
/// in its group. What asks for the end may come twice at once (shells signal a process, then its
/// group): within half a second it counts once. Asked for a second time, children that still run
/// after the grace time are killed. A SIGPIPE of this process is ignored. To be used by one thread,
/// which lives as long as the children.
class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options = {});
  /// Children that still run are asked to end, and killed after the grace time.
  ~Supervisor();

  /// The child's number, from 0 on. heard: its lines are for take_line, if there is one. UserError
  /// naming the program when it cannot be started.
  size_t start(const Command& command, bool heard = true);
  /// Returns when every child has ended and the writers have written all, or after an end that is
  /// asked for while they alone are waited for.
  void wait();
  /// Asks the children to end, and kills them after the grace time, or after another one.
  void end(std::optional<double> grace_seconds = {});

  /// The exit status of a child, or 128 + the signal that ended it; -1 while it runs.
  int status(size_t number) const { return children_[number].status(); }
  /// That of the child which failed first; 0 when none did.
  int status() const { return first_failure_; }
  /// The children that failed before this process ended or killed them, in the order in which they
  /// ended.
  const std::vector<size_t>& failed() const { return failed_; }
  /// The signal that last asked this process for the end; 0 for none.
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
  bool ending_ = false;  ///< by this process
  /// Seconds of the steady clock. ending_since_: children have known that they may be killed.
  std::optional<double> asked_at_, follow_at_, end_at_, ending_since_, kill_at_;
  double next_look_ = 0;  ///< so too
  int asked_by_ = 0;      ///< the signal
  int first_failure_ = 0;
};

}  // namespace composer
