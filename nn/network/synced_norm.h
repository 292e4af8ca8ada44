// Batch normalisation by the statistics of all ranks.
#pragma once

#include <ATen/ATen.h>

#include "nn/distributed/ranks.h"
#include "nn/network/operations.h"

namespace composer {

/// What op::batch_norm computes in training of the shares of all ranks together, for this rank's
/// share, however large each is: outputs, running statistics, and the gradients of a loss that is
/// the sum of all ranks'. Gradients of weight and bias are this rank's part, to be summed with the
/// others. The forward pass gathers once and the backward pass sums once, so that all ranks must
/// run the same layers in the same order. input [N, C, H, W], on some ranks perhaps without values;
/// the other tensors [C]. ranks: with two values of a channel or more among them.
at::Tensor synced_batch_norm(const at::Tensor& input, const at::Tensor& weight,
                             const at::Tensor& bias, const at::Tensor& running_mean,
                             const at::Tensor& running_var, const BatchNormOptions& options,
                             const Ranks& ranks);

}  // namespace composer
