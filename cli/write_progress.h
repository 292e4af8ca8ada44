// How far a command is that writes many items, on standard error.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace composer {

/// A bar on a terminal, else a line every few seconds.
class WriteProgress {
 public:
  WriteProgress();
  /// Items, of which `total` are to be written.
  void show(int64_t done, int64_t total);
  ~WriteProgress();
  /// Since it was made.
  double seconds() const { return steady_seconds() - begin_; }

 private:
  bool terminal_, shown_ = false;
  double begin_ = steady_seconds(), next_;
};

}  // namespace composer
