// How long a training step of many GPUs takes, by formulas.
#pragma once

#include <algorithm>

#include "scale/collective.h"
#include "scale/step_work.h"

namespace composer {

/// Seconds.
struct StepTime {
  double compute = 0;
  double communication = 0;  ///< of the sums of gradients
  double exposed = 0;        ///< the part of it that is not hidden behind the backward pass
  double loading = 0;        ///< that the step waits for data
  double seconds = 0;

  double hidden_fraction() const {
    return communication > 0 ? std::max(0.0, 1 - exposed / communication) : 1;
  }
};

/// Buckets are summed one after another, each from the moment its gradients are there (overlap) or
/// from the end of the backward pass. load_seconds: that a GPU's loader takes for its batch, while
/// the step before goes on. spread: standard deviation of a GPU's own time, as a share of it.
StepTime step_time(const StepParts& parts, const Cluster& cluster, bool overlap = true,
                   double load_seconds = 0, double spread = 0);

/// The expected largest of n normal draws, in standard deviations (Blom 1958).
double expected_largest(int64_t n);

}  // namespace composer
