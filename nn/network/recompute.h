// Layers that keep nothing of their forward pass but its input, and run again in the backward pass
// (Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv:1604.06174).
#pragma once

#include "nn/network/layer.h"

namespace composer {

/// layer.forward(input), and its gradients, for the memory of one input. What the layer draws from
/// LibTorch's generators it draws again the same way; where it learns from a pass, as batch
/// normalisation does its running statistics, it asks again(). Without gradients, and while a pass
/// is recorded, the layer's own forward(). UserError for a layer that overwrites its input. The
/// generators are the process's: ranks that are threads of one must not draw from them.
at::Tensor recomputed(Layer& layer, const at::Tensor& input);

/// Whether a layer runs on this thread for the second time.
bool again();

}  // namespace composer
