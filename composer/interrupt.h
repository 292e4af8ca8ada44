// Ctrl-C and SIGTERM: the first asks the loop to finish its step and save, the second stops the
// process at once.
#pragma once

namespace composer {

/// Takes over SIGINT and SIGTERM for its lifetime.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// The signal received since the guard was made, 0 for none.
int received_signal();

}  // namespace composer
