// Activation checkpointing: layers that save only their input and run again in the backward pass
// (Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv:1604.06174).
#pragma once

#include "nn/network/layer.h"

namespace composer {

/// layer.forward(input), whose gradients cost the memory of one input. The second run draws the
/// same numbers from LibTorch's generators; a layer that learns from a pass, as batch normalisation
/// does for its running statistics, asks again(). Without gradients, and while a pass is recorded,
/// it is layer.forward(). UserError for a layer that overwrites its input. The generators belong to
/// the process: ranks that are threads of one process must not draw from them.
at::Tensor recomputed(Layer& layer, const at::Tensor& input);

/// Whether this thread runs a layer for the second time.
bool again();

}  // namespace composer
