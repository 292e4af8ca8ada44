// The cost of a network, computed from its graph: arithmetic, memory, receptive fields.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "nn/network/graph.h"

namespace composer {

/// The pixels of the image, along each axis, that one element of a value depends on through
/// convolutions and pooling (padding included; normalisation statistics do not count), and the
/// pixels between neighbouring elements (Araujo et al. 2019, distill.pub).
struct ReceptiveField {
  std::array<int64_t, 2> size{1, 1};
  std::array<int64_t, 2> stride{1, 1};
  bool whole = false;  ///< each element depends on the whole image; `size` is the image's then
};

/// The cost of one operation or of several.
struct Cost {
  int64_t parameters = 0;  ///< elements
  int64_t trainable_parameters = 0;

  /// FLOPs of convolutions and matrix products, two for a multiply-add; other operations count 0. A
  /// step is the forward pass, the gradients of trained weights, and the gradients of inputs that
  /// depend on trained weights: torch.utils.flop_counter's count for model(x).sum().backward(),
  /// except that it counts the weight gradient of a grouped convolution `groups` times.
  int64_t flops_forward = 0, flops_step = 0;

  /// Bytes of the tensors that autograd saves in a training step's forward pass, in float32. A
  /// tensor counts once, for the first operation that saves it: inputs and outputs of operations,
  /// indices of maxima (int64), means and deviations of normalisations. Parameters, buffers and the
  /// loss's tensors do not count.
  int64_t activation_bytes = 0;

  Cost& operator+=(const Cost& other);
};

struct OperationCost : Cost {
  ReceptiveField receptive_field;  ///< receptive field of the operation's output
};

struct NetworkCost : Cost {
  /// Costs in the order of Graph::operations; a parameter counts for its first reader.
  std::vector<OperationCost> operations;
  ReceptiveField receptive_field;  ///< receptive field of the last convolution's output
};

/// The cost for batch_size images. graph: of one image through the model. Parameters that require a
/// gradient now count as trained.
NetworkCost cost_of(const Graph& graph, const Model& model, int64_t batch_size = 1);

}  // namespace composer
