// Shows which rank the others wait for.
#pragma once

#include "base/time.h"
#include "composer/loop/algorithm.h"

namespace composer {

/// At each log_interval, over the batches since the last: ranks/slowest, the rank that worked
/// longest; ranks/slowest_excess, the seconds a batch that it worked longer than the mean rank;
/// ranks/wait, the seconds a batch that the mean rank waited for others. Evaluation left out. For
/// more than one rank.
class Stragglers : public Callback {
 public:
  explicit Stragglers(Time log_interval) : log_interval_(log_interval) {}

  void fit_start(const State& state, Logger& logger, RunControl& control) override;
  void batch_end(const State& state, Logger& logger, RunControl& control) override;
  void eval_start(const State& state, Logger& logger, RunControl& control) override;
  void eval_end(const State& state, Logger& logger, RunControl& control) override;

 private:
  /// Both in seconds, from some moment on.
  struct Reading {
    double passed, waited;
  };
  static Reading read(const State& state);

  Time log_interval_;
  Reading begin_{}, eval_begin_{};
  int64_t batches_ = 0;  ///< since begin_
};

}  // namespace composer
