// Signals that interrupt a run: after the first, the loop finishes its step and saves; the second
// ends the process at once.
#pragma once

#include <vector>

#include "base/process/signals.h"

namespace composer {

/// SIGINT (Ctrl-C) and SIGTERM; and, unless they are ignored (nohup), SIGHUP (a closed terminal)
/// and SIGUSR1 (SLURM's --signal=USR1).
std::vector<int> ending_signals();

/// Whether an exit status is 128 + SIGINT, SIGTERM, SIGHUP or SIGUSR1: an interruption, no failure.
bool is_interruption(int status);

/// Handles ending_signals() for its lifetime. After a SIGHUP, SIGPIPE is ignored: the readers of
/// this process's output may be gone too. SIGHUP and SIGUSR1 only announce the end: a SIGINT or
/// SIGTERM after them counts as the first. Only one guard may exist at a time.
class InterruptGuard {
 public:
  InterruptGuard();

 private:
  SignalHandlers handlers_;
};

/// The signal received since the guard was made; 0 without one.
int received_signal();

}  // namespace composer
