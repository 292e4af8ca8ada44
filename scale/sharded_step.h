// Steps of ranks that shard parameters, optimizer state or images: which rank owns which
// parameters, and what the ranks send each other beside, or in place of, the sums of whole
// networks' gradients.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/network/model.h"
#include "scale/step_work.h"

namespace composer {

/// The trained parameters of a network, and the units that gather weights together
/// (ShardedParameters).
struct TrainedParameters {
  struct Parameter {
    double elements = 0;
    std::optional<size_t> unit{};  ///< none: the parameter is in no unit or in several
  };
  std::vector<Parameter> parameters;    ///< in the network's order
  std::map<std::string, size_t> units;  ///< number of the unit, from 0, by the path of its slot

  double elements() const;
};

TrainedParameters trained_parameters(Model& model);

/// Trained parameters and the number of ranks that own them.
struct Owned {
  double elements = 0;
  double owners = 0;
};

struct ParameterShards {
  Owned all;
  std::vector<Owned> units;  ///< indexed as in TrainedParameters
  Owned rest;                ///< parameters outside of units
  double largest = 0;        ///< elements of the rank with most

  double largest_unit() const;
};

/// Gives each parameter to one rank as an optimizer does (Optimizer::attach): the largest first,
/// each to the rank with least so far.
ParameterShards shards_of(const TrainedParameters& weights, int64_t ranks);

/// fsdp: in every microbatch each unit gathers its weights before either pass and sums its
/// gradients to their owners after the backward pass (ShardedParameters), by as many broadcasts and
/// reduces as it has owners. Gradients of parameters outside of units are summed after each
/// backward pass, and their weights sent after the update; there are no buckets.
/// operation_seconds() divides the passes among operations; an operation between two units belongs
/// to the unit before it in the forward pass and to the unit after it in the backward pass.
/// `weight_bytes`: bytes of an element as it is gathered.
void shard_parameters(StepParts& parts, const ImageWork& work, double images,
                      const StepOptions& options, const ParameterShards& shards,
                      int64_t weight_bytes);

/// zero1: after the update each rank broadcasts its float32 weights, one rank after another
/// (Optimizer::attach). Gradients are summed as without sharding.
void shard_optimizer_state(StepParts& parts, const ParameterShards& shards);

/// spatial_ranks: passes stop before operations for the transfers between ranks that share images.
/// `work`: one rank's. `images`: the number of images of which the rank has rows.
void split_images(StepParts& parts, const ImageWork& work, double images,
                  const StepOptions& options);

}  // namespace composer
