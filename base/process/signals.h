// Signal handlers for a lifetime, and signals that a loop reads from a descriptor.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <utility>
#include <vector>

namespace composer {

/// Signals within this time, in seconds, count as one request: shells and schedulers signal a
/// process and then its group.
inline constexpr double same_request_seconds = 0.5;

/// Whether this process ignores the signal.
bool is_ignored(int number);

/// Installs `handler` for these signals for its lifetime, then restores the earlier handlers.
/// Interrupted system calls are restarted (SA_RESTART).
class SignalHandlers {
 public:
  SignalHandlers(const std::vector<int>& numbers, void (*handler)(int));
  ~SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

/// Collects these signals for its lifetime, on whichever thread they arrive, then restores the
/// earlier handlers. Only one may exist at a time in a process.
class Signals {
 public:
  explicit Signals(const std::vector<int>& numbers);

  /// A descriptor that is readable when a signal has arrived.
  int descriptor() const { return pipe_.reader; }
  /// The signals since the last call, in order. Never waits.
  std::vector<int> take() const;

 private:
  struct Pipe {
    Pipe();
    ~Pipe();
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    int reader = -1;
  };

  Pipe pipe_;
  SignalHandlers handlers_;  ///< ends before the pipe, to which it writes
};

/// Discards, for its lifetime, the SIGPIPE of this thread's writes to a pipe or socket without a
/// reader.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec at_once{0, 0};
    ::sigtimedwait(&pipe_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

}  // namespace composer
