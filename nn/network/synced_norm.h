// Batch normalisation with the statistics of all ranks.
#pragma once

#include <ATen/ATen.h>

#include "nn/distributed/ranks.h"
#include "nn/network/operations.h"

namespace composer {

/// op::batch_norm in training, computed over the shares of all ranks together, for this rank's
/// share of any size: its outputs, the running statistics, and the gradients of a loss that is the
/// sum over ranks. Gradients of weight and bias are this rank's part, to be summed over ranks. The
/// forward pass gathers once and the backward pass sums once: all ranks must run the same layers in
/// the same order. input [N, C, H, W], empty on some ranks perhaps; the other tensors [C]. ranks:
/// have at least two values per channel together.
at::Tensor synced_batch_norm(const at::Tensor& input, const at::Tensor& weight,
                             const at::Tensor& bias, const at::Tensor& running_mean,
                             const at::Tensor& running_var, const BatchNormOptions& options,
                             const Ranks& ranks);

}  // namespace composer
