// Pooling of channels-last images of numbers or codes.
#pragma once

#include <ATen/ATen.h>

#include "inference/graph/trained_network.h"
#include "nn/network/operations.h"

namespace composer {

/// op::max_pool2d of float32 or uint8 codes, without ceil_mode; the output has channels-last
/// strides and the scale and zero point of the input.
at::Tensor largest_of_windows(const at::Tensor& images, const Pool2dOptions& options);

/// float32 or uint8 codes [N, C, H, W] -> float32 [N, C]: the means over all pixels. codes: scale
/// and zero point of uint8 images.
at::Tensor mean_of_pixels(const at::Tensor& images, const Affine& codes = {});

}  // namespace composer
