#include "composer/interrupt.h"

#include <unistd.h>

#include <atomic>
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

/// Nothing has been received.
auto fresh_handler() {
  received = 0;
  return handle;
}

}  // namespace

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

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

SignalHandlers::SignalHandlers(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = flags;
  for (const int signal : ending_signals()) {
    struct sigaction before {};
    ::sigaction(signal, &action, &before);
    before_.emplace_back(signal, before);
  }
}

SignalHandlers::~SignalHandlers() {
  for (const auto& [signal, action] : before_) ::sigaction(signal, &action, nullptr);
}

InterruptGuard::InterruptGuard() : handlers_(fresh_handler(), SA_RESTART) {}

int received_signal() { return received; }

}  // namespace composer
