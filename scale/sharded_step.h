// Steps of ranks that divide weights, the optimizer's state or images: what they send each other
// beside, or in place of, the sums of gradients of whole networks.
#pragma once

#include "scale/step_work.h"
#include "scale/weight_shares.h"

namespace composer {

/// fsdp: the passes of `parts` go through the units of the network, each of which gathers its
/// weights before either pass and sums its gradients to their owners after the backward one, in
/// every microbatch (ShardedParameters): by as many broadcasts and sums as it has owners.
/// Parameters of no unit are summed after each backward pass and sent after the update. Buckets are
/// summed no more. Passes are divided among operations as operation_seconds() has it; what runs
/// between two units belongs to the one before in the forward, the one after in the backward pass.
/// weight_bytes: of an element as it is gathered.
void divide_weights(StepParts& parts, const ImageWork& work, double images,
                    const StepOptions& options, const WeightShares& shares, int64_t weight_bytes);

/// zero1: after the update each rank sends the weights of its share, float32, to all others, one
/// rank after another (Optimizer::attach). Gradients are summed as without.
void divide_state(StepParts& parts, const WeightShares& shares);

/// spatial_ranks: passes stop before operations for what the ranks of an image send each other.
/// work: of one of them. images: whose rows it has.
void divide_images(StepParts& parts, const ImageWork& work, double images,
                   const StepOptions& options);

}  // namespace composer
