// How long a run will still take.
#pragma once

#include "base/params/params.h"
#include "composer/loop/algorithm.h"

namespace composer {

/// wall_clock/remaining_estimate, in seconds, after every batch from the skip_batches-th of this
/// process on: as long for what is left as for what this process has done since, evaluations and
/// checkpoints included. The terminal shows it too.
class RuntimeEstimator : public Callback {
 public:
  struct Params {
    int64_t skip_batches = 1;
    void fields(auto&& f) {
      f("skip_batches", skip_batches, "slow first batches of the process that say nothing",
        at_least(0));
    }
  };
  explicit RuntimeEstimator(Params params) : params_(params) {}

  void fit_start(const State& state, Logger& logger, RunControl& control) override;
  void batch_end(const State& state, Logger& logger, RunControl& control) override;

 private:
  Params params_;
  int64_t batches_ = 0;
  double begin_elapsed_ = 0, begin_seconds_ = 0;
};

}  // namespace composer
