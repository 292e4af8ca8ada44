// The work of a training step: the operations of both passes, and the buckets of gradients that
// become ready in the backward pass.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/loading/image_size.h"
#include "scale/collective.h"
#include "scale/hardware.h"

namespace composer {

struct Graph;
class Model;
struct NetworkCost;

/// One communication between ranks that share images (spatial_ranks): what the busiest of them
/// sends or receives.
struct RowsSent {
  double values = 0;      ///< values of each image, of the activations' type
  double image_sums = 0;  ///< float32 values of each image
  double batch_sums = 0;  ///< float32 values of all images together
  double messages = 0;    ///< messages one after another; 0: nothing is sent
};

/// The work of one image; with spatial_ranks the work of the rank with most of its rows.
struct ImageWork {
  struct Operation {
    double flops_backward = 0;
    int64_t gradient_elements = 0;
    double flops_forward = 0;
    std::optional<size_t> unit{};    ///< the unit that gathers its weights (TrainedParameters)
    RowsSent forward{}, backward{};  ///< rows sent before the operation in each pass
  };

  ImageSize size;
  double flops_forward = 0, flops_step = 0;
  double activation_values = 0;       ///< values that the backward pass needs
  std::vector<Operation> operations;  ///< in the order of the forward pass
  double gradient_elements() const;
};

/// `graph` and `cost` are those of one image. `units`: the unit of layers that gather their weights
/// together, by the path of their slot. `spatial_ranks`: ranks that divide the image's rows as
/// SpatialParallel does. `trains`: false for the communication of an evaluation.
ImageWork work_of(const Graph& graph, const NetworkCost& cost, ImageSize size,
                  const std::map<std::string, size_t>& units = {}, int64_t spatial_ranks = 1,
                  bool trains = true);

/// Gradients that one all-reduce sums.
struct Bucket {
  double bytes = 0;
  double ready = 0;  ///< share of the backward pass after which the gradients are ready
};

/// A point at which a pass waits for a transfer between GPUs that share images.
struct RowStop {
  Transfer transfer{};
  double at = 0;  ///< share of the pass before the transfer
};

/// The passes of one microbatch through a unit: layers that gather their weights together.
struct UnitPass {
  double forward = 0, backward = 0;  ///< seconds, until the next unit begins
  Transfer gather{};                 ///< gathers the unit's weights before either pass
  Transfer sum{};                    ///< sums the unit's gradients after the backward pass
};

/// The step of one GPU; times in seconds.
struct StepParts {
  double forward = 0, backward = 0;
  double rest = 0;  ///< optimizer and loop, after the gradients are summed
  std::vector<Bucket> buckets;
  std::vector<RowStop> forward_rows{}, backward_rows{};  ///< ascending
  /// The units of fsdp, in the order of the forward pass; empty without fsdp.
  std::vector<UnitPass> units{};
  int64_t passes = 1;                 ///< passes through the units: microbatches
  std::vector<Transfer> late_sums{};  ///< sums after each backward pass through the units
  std::vector<Transfer> updated{};    ///< after `rest`: weights from the ranks that updated them

  double seconds() const { return forward + backward + rest; }
  double bytes() const;
};

struct StepOptions {
  double flops_per_s = 0;
  double memory_bytes_per_s = 0;
  int64_t value_bytes = 4;         ///< bytes of an activation
  int64_t gradient_bytes = 4;      ///< bytes of a gradient's element as it is sent
  double bucket_bytes = 25 << 20;  ///< size of a bucket in fp32, whatever type is sent
  int64_t microbatches = 1;
};

/// The passes of `images` images: the network's FLOPs at the sustained rate or, if that takes
/// longer, its kept values at the memory's bandwidth; and the start of each kernel.
StepParts step_parts(const ImageWork& work, double images, const StepOptions& options);

/// Seconds of an operation in a step, of all microbatches.
struct OperationSeconds {
  double forward = 0, backward = 0;
};

/// Buckets as c10d makes them: gradients in the order in which they become ready, the first bucket
/// of 1 MiB. Only the gradients of the last microbatch are sent.
std::vector<Bucket> buckets_of(const ImageWork& work, double images, const StepOptions& options);

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
