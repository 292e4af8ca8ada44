// What a training step consists of: the network's arithmetic in parts of the backward pass, and the
// buckets of gradients that become ready in it.
#pragma once

#include <cstdint>
#include <vector>

#include "composer/image_size.h"
#include "composer/network/cost.h"
#include "composer/network/graph.h"
#include "scale/hardware.h"

namespace composer {

/// Of one image.
struct ImageWork {
  struct Operation {
    double flops_backward = 0;
    int64_t gradient_elements = 0;
  };

  ImageSize size;
  double flops_forward = 0, flops_step = 0;
  double activation_values = 0;       ///< that the backward pass needs
  std::vector<Operation> operations;  ///< in the order of the forward pass
  double gradient_elements() const;
};

/// graph, cost: of one image.
ImageWork work_of(const Graph& graph, const NetworkCost& cost, ImageSize size);

/// Gradients that are summed over the GPUs at once.
struct Bucket {
  double bytes = 0;
  double ready = 0;  ///< share of the backward pass after which they are there
};

/// A step of one GPU, in seconds.
struct StepParts {
  double forward = 0, backward = 0;
  double rest = 0;  ///< after the gradients are summed: the optimizer, the loop
  std::vector<Bucket> buckets;

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

/// Buckets as c10d makes them: gradients in the order in which they come, a first bucket of 1 MiB.
/// Those of the last microbatch alone are sent.
std::vector<Bucket> buckets_of(const ImageWork& work, double images, const StepOptions& options);

}  // namespace composer
