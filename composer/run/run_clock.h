// How long a run has trained, and how fast.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace composer {

class RunClock {
 public:
  /// Goes on from `seconds` of an earlier process.
  void start(double seconds) { begin_ = steady_seconds() - seconds, started_ = true; }
  bool started() const { return started_; }
  /// Since the run's beginning, evaluation included.
  double seconds() const { return steady_seconds() - begin_; }

  /// A training batch of this process. The first ones are no measure of its speed.
  /// waited: the seconds of it in which there were no data.
  void count(int64_t samples, double seconds, double waited) {
    if (batches_++ == warmup_batches) samples_ = 0, seconds_ = 0, waited_ = 0;
    samples_ += samples, seconds_ += seconds, waited_ += waited;
  }
  /// Time that training batches took beside the counted one.
  void add(double seconds) { seconds_ += seconds; }

  int64_t batches() const { return batches_; }
  /// Of training alone; 0 before the first batch.
  double samples_per_second() const {
    return seconds_ > 0 ? static_cast<double>(samples_) / seconds_ : 0;
  }
  /// Share of training's time in which it waited for data; nothing after the first batches alone.
  std::optional<double> wait_fraction() const {
    if (batches_ <= warmup_batches || seconds_ <= 0) return {};
    return waited_ / seconds_;
  }

 private:
  static constexpr int64_t warmup_batches = 10;

  double begin_ = 0;  ///< steady-clock seconds at second 0 of the run
  bool started_ = false;
  int64_t batches_ = 0, samples_ = 0;
  double seconds_ = 0, waited_ = 0;
};

}  // namespace composer
