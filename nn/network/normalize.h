// uint8 images from the loader -> normalised float images for the network.
#pragma once

#include <ATen/ATen.h>

#include "base/loading/normalization.h"

namespace composer {

/// images: uint8 [N, H, W, C] -> float32, or float32 rounded to `type`, [N, C, H, W] with the
/// strides of `format`: (x - mean) / std per channel. One pass on the CPU for float32, and on a GPU
/// with libcomposer_cuda.so, which gives the same bits as the CPU. C must be the length of mean and
/// std. RunError for other images.
at::Tensor normalize(const at::Tensor& images, const Normalization& normalization,
                     at::MemoryFormat format, at::ScalarType type = at::kFloat);

/// input: floating point [N, C, H, W], normalised -> float32 [N, C, H, W] on the scale of bytes,
/// not rounded.
at::Tensor pixel_values(const at::Tensor& input, const Normalization& normalization);

/// pixels: float32 [N, C, H, W] -> uint8 [N, H, W, C], rounded and clamped to [0, 255].
at::Tensor to_bytes(const at::Tensor& pixels);

}  // namespace composer

/// The function in libcomposer_cuda.so: writes byte * scale + shift, by channel, to `output` [N, C,
/// H, W]. Returns false, and does nothing, where it has no kernel for these tensors or this GPU.
using NormalizeOnGpu = bool(const at::Tensor& images, const float* scale, const float* shift,
                            const at::Tensor& output);
extern "C" NormalizeOnGpu composer_normalize;
