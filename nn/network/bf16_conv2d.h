// Convolutions of bfloat16 images on a CPU, by float32 weights.
#pragma once

#include "nn/network/operations.h"

namespace composer {

/// Whether bf16_conv2d() may take the place of op::conv2d for such a convolution: under autocast to
/// bfloat16, while no pass is recorded.
bool bf16_conv2d_takes(const at::Tensor& input, const at::Tensor& weight,
                       const Conv2dOptions& options);

/// op::conv2d(input, rounded, bias, options), whose gradients go to `weight` and, as float32 sums
/// that were never rounded to bfloat16, to `bias`. In the input's memory order. rounded: the weight
/// as bfloat16. 1x1 convolutions with a stride read, and keep, only the pixels that they use;
/// others keep no input that a fused norm can make again (NormSource), which is a third of a
/// residual network's memory.
at::Tensor bf16_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& rounded,
                       const at::Tensor& bias, const Conv2dOptions& options);

}  // namespace composer
