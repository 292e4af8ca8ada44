// Where the time of a run goes: sums of the ranges that the loop, the loader's threads and LibTorch
// open by name.
#pragma once

#include <ATen/record_function.h>

#include <string_view>
#include <vector>

#include "nn/profiling/range_totals.h"

namespace composer {

class ThreadRanges;

/// Sums the ranges that end while it lives. A range is opened by RECORD_USER_SCOPE; the loop's are
/// dataloader, normalize, zero_grad, forward, loss, accuracy, backward, finish_gradients,
/// optimizer, log, evaluation, checkpoint, events, algorithms and callbacks by their names; the
/// loader's threads' are read, decode, augment, collate, wait. Any number of timers may live at
/// once; where none does, nobody listens. Work that a GPU still has to do is not in it. The thread
/// that makes a timer outlives it.
class Timer {
 public:
  enum class Listen {
    here,        ///< to the thread that makes the timer, in which the timer has to end too
    everywhere,  ///< to all threads
    operators,   ///< to LibTorch's operators and the nodes of its backward pass besides: slows each
  };
  explicit Timer(Listen listen = Listen::everywhere);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Forgets the ranges that have ended.
  void reset();

  /// Names that ended since the timer's begin or reset(). Seconds of operators are not taken off
  /// the ranges around them.
  struct Totals {
    RangeTotals here;       ///< of the thread that made the timer
    RangeTotals elsewhere;  ///< of all others together, ended ones too
    RangeTotals operators;  ///< of all threads
  };
  Totals totals() const;

  /// Of one name in the thread that made the timer: cheap enough for every batch.
  RangeTotal here(std::string_view name) const;

 private:
  Totals since_thread_began() const;

  const Listen listen_;
  const ThreadRanges* const here_;
  std::vector<at::CallbackHandle> handles_;
  Totals before_;
};

}  // namespace composer
