// Pools of images with channels-last strides, of numbers or of codes.
#pragma once

#include <ATen/ATen.h>

#include "inference/graph/trained_network.h"
#include "nn/network/operations.h"

namespace composer {

/// float32 or uint8 codes, as op::max_pool2d, without ceil_mode; the output has channels-last
/// strides. Codes rise with their numbers, so the affine map stays.
at::Tensor largest_of_windows(const at::Tensor& images, const Pool2dOptions& options);

/// float32 or uint8 [N, C, H, W] -> float32 [N, C], the means over all pixels; of codes, those of
/// the numbers that they stand for.
at::Tensor mean_of_pixels(const at::Tensor& images, const Affine& codes = {});

}  // namespace composer
