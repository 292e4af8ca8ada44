#include "composer/callbacks/runtime_estimator.h"

#include "composer/logging/logger.h"
#include "composer/loop/state.h"

namespace composer {

void RuntimeEstimator::fit_start(const State& state, Logger&, RunControl&) {
  batches_ = 0;
  begin_elapsed_ = state.elapsed(), begin_seconds_ = state.time.seconds;
}

void RuntimeEstimator::batch_end(const State& state, Logger& logger, RunControl&) {
  const double elapsed = state.elapsed();
  if (++batches_ <= params_.skip_batches) {
    begin_elapsed_ = elapsed, begin_seconds_ = state.time.seconds;
    return;
  }
  const double done = elapsed - begin_elapsed_;
  if (done <= 0) return;
  logger.log("wall_clock/remaining_estimate",
             (state.time.seconds - begin_seconds_) / done * (1 - elapsed));
}

}  // namespace composer
