// The speed of the last training batches, for callbacks that log a rate.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "base/clock.h"

namespace composer {

/// A batch's time is that from the end of the previous batch to its own end. suspend() and resume()
/// leave evaluation out.
class BatchRate {
 public:
  using Clock = std::function<double()>;

  /// window_size: the number of batches that the rate is averaged over, at least 1; at the start
  /// there are fewer.
  explicit BatchRate(int64_t window_size, Clock clock = steady_seconds)
      : window_size_(window_size), clock_(std::move(clock)) {}

  /// Starts the clock of the first batch; later batches begin where the previous one ended.
  void batch_start() {
    if (last_ < 0) last_ = clock_();
  }

  /// amount: the batch's amount of work, in the rate's unit. Returns the batch's seconds.
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

  /// The amount per second; 0 if no time has passed.
  double per_second() const { return sum_.seconds > 0 ? sum_.amount / sum_.seconds : 0; }

 private:
  struct Batch {
    double seconds, amount;
  };

  int64_t window_size_;
  Clock clock_;
  std::deque<Batch> window_;
  Batch sum_{0, 0};
  double last_ = -1;  ///< the end of the last batch; negative: no batch has begun
  double suspended_ = 0;
};

}  // namespace composer
