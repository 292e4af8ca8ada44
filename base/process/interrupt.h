// Signals that ask for the end: the first asks the loop to finish its step and save, the second
// stops the process at once.
#pragma once

#include <vector>

#include "base/process/signals.h"

namespace composer {

/// SIGINT (Ctrl-C) and SIGTERM, and, unless they are ignored, as nohup has it, SIGHUP (a closed
/// terminal) and SIGUSR1 (SLURM's --signal=USR1).
std::vector<int> ending_signals();

/// Whether an exit status is 128 + one of these signals: the program was interrupted, which is no
/// failure.
bool is_interruption(int status);

/// Takes over ending_signals() for its lifetime. A SIGHUP has SIGPIPE ignored from then on: readers
/// of what this process writes may be gone too. A SIGINT or SIGTERM after a SIGHUP or SIGUSR1,
/// which only announce the end, is a first one. One lives at a time.
class InterruptGuard {
 public:
  InterruptGuard();

 private:
  SignalHandlers handlers_;
};

/// The signal received since the guard was made, 0 for none.
int received_signal();

}  // namespace composer
