// Weights that are there only while a layer computes with them.
#pragma once

#include <ATen/ATen.h>

namespace composer {

/// Is told of each forward pass of the layers whose weights it has.
class LayerWeights {
 public:
  virtual ~LayerWeights() = default;
  /// Before the layer runs: its weights must be there.
  virtual void fetch() = 0;
  /// The layer made `output` of `input`. Returns what stands for the output; where autograd
  /// recorded how it was made, the weights must be there again for its backward pass.
  virtual at::Tensor release(const at::Tensor& input, at::Tensor output) = 0;
};

}  // namespace composer
