// How long a training step of many GPUs takes, by formulas.
#pragma once

#include <algorithm>

#include "scale/collective.h"
#include "scale/step_work.h"

namespace composer {

/// Seconds.
struct StepTime {
  double compute = 0;
  double communication = 0;  ///< of all that GPUs send each other
  double weights = 0;        ///< of it: weights from the GPUs that they belong to
  double rows = 0;           ///< of it: between GPUs that have rows of the same images
  double exposed = 0;        ///< the part of it that arithmetic waits for
  double loading = 0;        ///< that the step waits for data
  double seconds = 0;

  double hidden_fraction() const {
    return communication > 0 ? std::max(0.0, 1 - exposed / communication) : 1;
  }
};

/// The stages of stages_of(), one after another, on GPUs that are all as fast. load_seconds: that a
/// GPU's loader takes for its batch, while the step before goes on. spread: standard deviation of a
/// GPU's own time, as a share of it.
StepTime step_time(const StepParts& parts, const Cluster& cluster, bool overlap = true,
                   double load_seconds = 0, double spread = 0);

/// Of its forward passes alone.
double forward_seconds(const StepParts& parts, const Cluster& cluster, bool overlap = true);

/// The expected largest of n normal draws, in standard deviations (Blom 1958).
double expected_largest(int64_t n);

}  // namespace composer
