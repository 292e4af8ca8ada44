// What a network costs: its arithmetic, its memory, and how much of the image its values see, read
// off its graph.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "nn/network/graph.h"

namespace composer {

/// The pixels of the image along each axis that one place of a value depends on by the windows of
/// convolutions and pooling (padding included; a normalisation's statistics do not count), and the
/// pixels from one place to the next (Araujo et al. 2019, distill.pub).
struct ReceptiveField {
  std::array<int64_t, 2> size{1, 1};
  std::array<int64_t, 2> stride{1, 1};
  bool whole = false;  ///< each place depends on the whole image; then size is the image's
};

/// Of one operation or of several.
struct Cost {
  int64_t parameters = 0;  ///< elements
  int64_t trainable_parameters = 0;

  /// Of convolutions and matrix products, a multiply-add being two; of all else 0. A step is the
  /// forward pass, the gradients of the weights that are trained, and the gradients of inputs that
  /// come from such weights: what torch.utils.flop_counter counts for model(x).sum().backward().
  /// (It counts the weights' gradient of a grouped convolution `groups` times.)
  int64_t flops_forward = 0, flops_step = 0;

  /// Of the tensors that autograd keeps from the forward pass of a training step for the backward
  /// pass, in float32, each counted once, with the operation that first asks for it: inputs and
  /// outputs of operations, places of maxima (int64), means and deviations of normalisations.
  /// Without parameters, buffers, and what the loss keeps.
  int64_t activation_bytes = 0;

  Cost& operator+=(const Cost& other);
};

struct OperationCost : Cost {
  ReceptiveField receptive_field;  ///< of its output
};

struct NetworkCost : Cost {
  std::vector<OperationCost> operations;  ///< as Graph::operations; a parameter is its first
                                          ///< reader's
  ReceptiveField receptive_field;         ///< of the last convolution's output
};

/// Of batch_size images. graph: of one image through the model; what is trained is what requires a
/// gradient now.
NetworkCost cost_of(const Graph& graph, const Model& model, int64_t batch_size = 1);

}  // namespace composer
