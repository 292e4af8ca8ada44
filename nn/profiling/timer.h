// The time of a run by named ranges, which the loop, the loader's threads and LibTorch open.
#pragma once

#include <ATen/record_function.h>

#include <string_view>
#include <vector>

#include "nn/profiling/thread_ranges.h"

namespace composer {

/// Sums the ranges that end while it lives. RECORD_USER_SCOPE opens a range. The loop's ranges are
/// dataloader, normalize, zero_grad, forward, loss, accuracy, backward, finish_gradients,
/// optimizer, log, evaluation, checkpoint, events, and algorithms and callbacks by their names; the
/// loader's threads' are read, decode, augment, collate, wait. Any number of timers may live at
/// once; without any, ranges cost nothing. Queued GPU work does not count. The thread that makes a
/// timer outlives it.
class Timer {
 public:
  enum class Listen {
    here,        ///< the thread that makes the timer, which must also destroy it
    everywhere,  ///< all threads
    operators,   ///< all threads, and LibTorch's operators and backward nodes: slows each of them
  };
  explicit Timer(Listen listen = Listen::everywhere);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Sets all totals to 0.
  void reset();

  /// Totals by name since the timer was made or reset(). Seconds of operators are not subtracted
  /// from the ranges around them.
  struct Totals {
    RangeTotals here;       ///< ranges of the thread that made the timer
    RangeTotals elsewhere;  ///< ranges of all other threads together, including ended ones
    RangeTotals operators;  ///< operators of all threads
  };
  Totals totals() const;

  /// The total of one name in the thread that made the timer; cheap enough for every batch.
  RangeTotal here(std::string_view name) const;

 private:
  Totals since_thread_began() const;

  const Listen listen_;
  const ThreadRanges* const here_;
  std::vector<at::CallbackHandle> handles_;
  Totals before_;
};

}  // namespace composer
