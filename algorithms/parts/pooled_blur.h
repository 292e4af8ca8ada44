// The 3x3 max pooling and the blur of blurpool in one pass on the CPU. LibTorch's unstrided pooling
// writes an 8-byte index per pixel and takes, with the blur, 3 to 7 times as long.
#pragma once

#include <ATen/ATen.h>

namespace composer {

/// Whether pooled_blur supports `input`: on the CPU, channels-last, float32 or bfloat16.
bool pooled_blur_takes(const at::Tensor& input);

/// Max pooling 3x3 with stride 1 and padding 1, then the blur [1 2 1] x [1 2 1] / 16 with padding 1
/// and `stride` (1 or 2): [N, C, H, W] -> [N, C, ceil(H / stride), ceil(W / stride)].
/// Differentiable once.
at::Tensor pooled_blur(const at::Tensor& input, int64_t stride);

}  // namespace composer
