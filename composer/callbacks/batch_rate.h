// How fast the last training batches went, for callbacks that log a rate.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "base/clock.h"

namespace composer {

/// Seconds run from the end of a batch to the end of the next, evaluation left out by suspend() and
/// resume().
class BatchRate {
 public:
  using Clock = std::function<double()>;

  /// window_size: batches that the rate is taken over, at least 1 (fewer at the start).
  explicit BatchRate(int64_t window_size, Clock clock = steady_seconds)
      : window_size_(window_size), clock_(std::move(clock)) {}

  /// The first batch begins here, later ones where the one before ended.
  void batch_start() {
    if (last_ < 0) last_ = clock_();
  }

  /// amount: what the batch did, in the rate's unit. Returns the batch's seconds.
  double batch_end(double amount) {
    const double end = clock_();
    const double seconds = end - std::exchange(last_, end);
    window_.push_back({seconds, amount});
    sum_.seconds += seconds, sum_.amount += amount;
    if (std::ssize(window_) > window_size_) {
      sum_.seconds -= window_.front().seconds, sum_.amount -= window_.front().amount;
      window_.pop_front();
    }
    return seconds;
  }

  void suspend() { suspended_ = clock_(); }
  void resume() {
    if (last_ >= 0) last_ += clock_() - suspended_;
  }

  /// Amount a second; 0 where no time has passed.
  double per_second() const { return sum_.seconds > 0 ? sum_.amount / sum_.seconds : 0; }

 private:
  struct Batch {
    double seconds, amount;
  };

  int64_t window_size_;
  Clock clock_;
  std::deque<Batch> window_;
  Batch sum_{0, 0};
  double last_ = -1;  ///< when the last batch ended; negative: none has begun
  double suspended_ = 0;
};

}  // namespace composer
