// What a training step consists of: the network's arithmetic in parts of the backward pass, and the
// buckets of gradients that become ready in it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/loading/image_size.h"
#include "nn/network/cost.h"
#include "nn/network/graph.h"
#include "scale/collective.h"
#include "scale/hardware.h"
#include "scale/row_division.h"

namespace composer {

/// Of one image; of the rank that has most rows of it, where ranks divide them.
struct ImageWork {
  struct Operation {
    double flops_backward = 0;
    int64_t gradient_elements = 0;
    double flops_forward = 0;
    std::optional<size_t> unit{};    ///< that gathers its weights (TrainedWeights)
    RowsSent forward{}, backward{};  ///< before the operation's own part of a pass
  };

  ImageSize size;
  double flops_forward = 0, flops_step = 0;
  double activation_values = 0;       ///< that the backward pass needs
  std::vector<Operation> operations;  ///< in the order of the forward pass
  double gradient_elements() const;
};

/// graph, cost: of one image. units: numbers of layers that gather their weights together, by the
/// paths of their slots. spatial_ranks: that divide the image's rows, as SpatialParallel does.
/// trains: else what these send each other is an evaluation's.
ImageWork work_of(const Graph& graph, const NetworkCost& cost, ImageSize size,
                  const std::map<std::string, size_t>& units = {}, int64_t spatial_ranks = 1,
                  bool trains = true);

/// Gradients that are summed over the GPUs at once.
struct Bucket {
  double bytes = 0;
  double ready = 0;  ///< share of the backward pass after which they are there
};

/// Where a pass stops until what GPUs with rows of the same images send each other is there.
struct RowStop {
  Transfer transfer{};
  double at = 0;  ///< share of the pass that goes before it
};

/// Layers that gather their weights together, as one microbatch goes through them.
struct UnitPass {
  double forward = 0, backward = 0;  ///< seconds, until the next unit begins
  Transfer gather{};                 ///< of its weights, before either
  Transfer sum{};                    ///< of its gradients, after the backward pass
};

/// A step of one GPU, in seconds.
struct StepParts {
  double forward = 0, backward = 0;
  double rest = 0;  ///< after the gradients are summed: the optimizer, the loop
  std::vector<Bucket> buckets;
  std::vector<RowStop> forward_rows{}, backward_rows{};  ///< ascending
  /// fsdp: what the passes consist of, in the order of the forward pass; else empty.
  std::vector<UnitPass> units{};
  int64_t passes = 1;                 ///< through the units: microbatches
  std::vector<Transfer> late_sums{};  ///< after each backward pass through the units
  std::vector<Transfer> updated{};    ///< after the rest: weights, from those that updated them

  double seconds() const { return forward + backward + rest; }
  double bytes() const;
};

struct StepOptions {
  double flops_per_s = 0;
  double memory_bytes_per_s = 0;
  int64_t value_bytes = 4;         ///< of activations
  int64_t gradient_bytes = 4;      ///< of an element, as it is sent
  double bucket_bytes = 25 << 20;  ///< of gradients in fp32, whatever is sent
  int64_t microbatches = 1;
};

/// The forward and backward pass of `images`: the network's FLOPs at the sustained rate, or what it
/// keeps through the memory where that takes longer, and the start of each kernel.
StepParts step_parts(const ImageWork& work, double images, const StepOptions& options);

/// Seconds of an operation in a step, of all microbatches.
struct OperationSeconds {
  double forward = 0, backward = 0;
};
/// What step_parts() has, operation by operation.
std::vector<OperationSeconds> operation_seconds(const ImageWork& work, double images,
                                                const StepOptions& options);

/// Buckets as c10d makes them: gradients in the order in which they come, a first bucket of 1 MiB.
/// Those of the last microbatch alone are sent.
std::vector<Bucket> buckets_of(const ImageWork& work, double images, const StepOptions& options);

}  // namespace composer
