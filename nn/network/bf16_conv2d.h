// Convolutions of bfloat16 images on a CPU, with float32 weights.
#pragma once

#include "nn/network/operations.h"

namespace composer {

/// Whether bf16_conv2d() may replace op::conv2d for this call: under autocast to bfloat16, while no
/// pass is recorded.
bool bf16_conv2d_takes(const at::Tensor& input, const at::Tensor& weight,
                       const Conv2dOptions& options);

/// op::conv2d(input, rounded, bias, options), whose gradients go to `weight` and `bias`; the bias's
/// gradient is a float32 sum that was never rounded to bfloat16. The output has the input's memory
/// format. rounded: the weight in bfloat16. A 1x1 convolution with a stride reads, and saves for
/// the backward pass, only the pixels that it uses. Other convolutions do not save an input that a
/// fused norm can recompute (NormSource), which is a third of a residual network's memory.
at::Tensor bf16_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& rounded,
                       const at::Tensor& bias, const Conv2dOptions& options);

}  // namespace composer
