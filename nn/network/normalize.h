// uint8 images as the loader hands them out -> normalised float images as networks take them.
#pragma once

#include <ATen/ATen.h>

#include "base/loading/normalization.h"

namespace composer {

/// images: uint8 [N, H, W, C] -> float32, or what that rounds to in `type`, [N, C, H, W] with the
/// strides of `format`: (x - mean) / std per channel. One pass on the CPU to float32, and on a GPU
/// by libcomposer_cuda.so, which gives the CPU's bits. C must be the length of mean and std. Throws
/// RunError for other images.
at::Tensor normalize(const at::Tensor& images, const Normalization& normalization,
                     at::MemoryFormat format, at::ScalarType type = at::kFloat);

/// input: floating point [N, C, H, W], normalised -> float32 [N, C, H, W] of the range that bytes
/// have, not rounded.
at::Tensor pixel_values(const at::Tensor& input, const Normalization& normalization);

/// pixels: float32 [N, C, H, W] -> uint8 [N, H, W, C], rounded; what is out of range becomes 0 or
/// 255.
at::Tensor to_bytes(const at::Tensor& pixels);

}  // namespace composer

/// What cuda/ has for it: byte * scale + shift by channel, written to `output` [N, C, H, W]. False
/// where it has no kernel for these tensors or this GPU; nothing is done then.
using NormalizeOnGpu = bool(const at::Tensor& images, const float* scale, const float* shift,
                            const at::Tensor& output);
extern "C" NormalizeOnGpu composer_normalize;
