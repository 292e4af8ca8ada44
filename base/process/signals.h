// Handlers of signals for a lifetime, and signals as things to read, between other things that a
// loop waits for.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <utility>
#include <vector>

namespace composer {

/// One request may arrive as several signals within this time, in seconds: shells and schedulers
/// signal a process and then its group.
inline constexpr double same_request_seconds = 0.5;

/// Whether this process has been told to ignore the signal.
bool is_ignored(int number);

/// Has `handler` called on these signals for its lifetime; then all is as before. What they
/// interrupt goes on (SA_RESTART).
class SignalHandlers {
 public:
  SignalHandlers(const std::vector<int>& numbers, void (*handler)(int));
  ~SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

/// Takes the given signals for its lifetime, whichever thread they come to; then all is as before.
/// One at a time in a process.
class Signals {
 public:
  explicit Signals(const std::vector<int>& numbers);

  /// A descriptor that is readable when a signal has come.
  int descriptor() const { return pipe_.reader; }
  /// Those that have come since the last call, in their order. Never waits.
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
  SignalHandlers handlers_;  // ends before the pipe that it writes to
};

/// Takes back the SIGPIPE that this thread's writes into a pipe or socket without a reader raise
/// while it lives.
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
