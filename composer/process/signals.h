// Signals as things to read, between other things that a loop waits for.
#pragma once

#include <csignal>
#include <utility>
#include <vector>

namespace composer {

/// Takes the given signals for its lifetime, whichever thread they come to; then all is as before.
/// One at a time in a process.
class Signals {
 public:
  explicit Signals(const std::vector<int>& numbers);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// A descriptor that is readable when a signal has come.
  int descriptor() const { return reader_; }
  /// Those that have come since the last call, in their order. Never waits.
  std::vector<int> take() const;

 private:
  int reader_ = -1;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace composer
