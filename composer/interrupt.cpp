#include "composer/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>

namespace composer {
namespace {

/// One request may arrive as several signals: shells and schedulers signal a process and then its
/// group.
constexpr double same_request_seconds = 0.5;

/// Any thread may take the signal.
std::atomic<int> received = 0;
static_assert(decltype(received)::is_always_lock_free);
timespec received_at;
struct sigaction previous_int, previous_term;

void handle(int signal) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (received == 0) {
    received_at = now;
    received = signal;
    return;
  }
  const double since = static_cast<double>(now.tv_sec - received_at.tv_sec) +
                       static_cast<double>(now.tv_nsec - received_at.tv_nsec) * 1e-9;
  if (since > same_request_seconds) _exit(128 + signal);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  received = 0;
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
}

int received_signal() { return received; }

}  // namespace composer
