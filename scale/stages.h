// A training step as one GPU goes through it: what it computes, sends and waits for, in order.
#pragma once

#include <cstdint>
#include <vector>

#include "scale/collective.h"
#include "scale/step_work.h"

namespace composer {

/// Transfers that are begun, then those that are waited for, then arithmetic. What all GPUs send
/// each other goes one after another, in the order in which it is begun; rows likewise, beside it.
struct Stage {
  std::vector<Transfer> begins{};
  /// Of the transfers of all GPUs that the step has begun so far those, from the first on, that
  /// must have ended. Rows are waited for in the stage that begins them.
  int64_t waits_for = 0;
  double compute = 0;  ///< seconds
};

/// A step. overlap: transfers go on while the GPU computes: buckets of gradients from the moment
/// they are there; a unit's weights while the one before it computes, its gradients while the next
/// one does (ShardedParameters). Else passes stop for them. One GPU sends nothing.
std::vector<Stage> stages_of(const StepParts& parts, const Cluster& cluster, bool overlap);

/// Its forward passes alone.
std::vector<Stage> forward_stages(const StepParts& parts, const Cluster& cluster, bool overlap);

}  // namespace composer
