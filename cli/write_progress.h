// The progress of `data write`.
#pragma once

#include <unistd.h>

#include <cstdint>

#include "base/clock.h"

namespace composer {

/// Shows a progress bar on a terminal, otherwise logs a line every 5 seconds.
class WriteProgress {
 public:
  WriteProgress() = default;
  ~WriteProgress();
  WriteProgress(const WriteProgress&) = delete;
  WriteProgress& operator=(const WriteProgress&) = delete;

  /// done: items that are written, of `total`.
  void show(int64_t done, int64_t total);
  /// Seconds since construction.
  double seconds() const { return steady_seconds() - begin_; }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  double begin_ = steady_seconds(), next_ = terminal_ ? 0 : begin_ + 5;
};

}  // namespace composer
