// uint8 images as the loader hands them out -> normalised float images as networks take them.
#pragma once

#include <ATen/ATen.h>

#include "composer/loader.h"

namespace composer {

/// images: uint8 [N, H, W, C] -> float32 [N, C, H, W] with the strides of `format`: (x - mean) /
/// std per channel. One pass on the CPU. C must be the length of mean and std. Throws RunError for
/// other images.
at::Tensor normalize(const at::Tensor& images, const Normalization& normalization,
                     at::MemoryFormat format);

}  // namespace composer
