#include "base/process/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <ctime>

namespace composer {
namespace {

/// Any thread may take the signal.
std::atomic<int> received = 0;
static_assert(decltype(received)::is_always_lock_free);
timespec received_at;

bool announces(int signal) { return signal == SIGHUP || signal == SIGUSR1; }

void handle(int signal) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (signal == SIGHUP) ::signal(SIGPIPE, SIG_IGN);
  if (received == 0 || (announces(received) && !announces(signal))) {
    received_at = now;
    received = signal;
    return;
  }
  const double since = static_cast<double>(now.tv_sec - received_at.tv_sec) +
                       static_cast<double>(now.tv_nsec - received_at.tv_nsec) * 1e-9;
  if (since > same_request_seconds) _exit(128 + signal);
}

/// Forgets an earlier signal.
auto fresh_handler() {
  received = 0;
  return handle;
}

}  // namespace

std::vector<int> ending_signals() {
  std::vector<int> signals{SIGINT, SIGTERM};
  for (const int signal : {SIGHUP, SIGUSR1})
    if (!is_ignored(signal)) signals.push_back(signal);
  return signals;
}

bool is_interruption(int status) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
    if (status == 128 + signal) return true;
  return false;
}

InterruptGuard::InterruptGuard() : handlers_(ending_signals(), fresh_handler()) {}

int received_signal() { return received; }

}  // namespace composer
