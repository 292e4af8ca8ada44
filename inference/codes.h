// Tensors whose numbers are codes of 8 bits.
#pragma once

#include <ATen/ATen.h>

#include "composer/network/operations.h"
#include "inference/trained_network.h"

namespace composer {

/// float32 -> uint8 codes of `bits` bits with the same strides: the nearest number's, halves to
/// even ones.
at::Tensor codes_of(const at::Tensor& numbers, const Affine& affine, int64_t bits);

/// uint8 codes -> float32 with the same strides.
at::Tensor numbers_of(const at::Tensor& codes, const Affine& affine);

/// The code of each byte of an image in each channel: uint8 [256, C].
at::Tensor pixel_codes(const Normalization& normalization, const Affine& affine, int64_t bits);

/// images: uint8 [N, H, W, C] -> their codes [N, C, H, W] with channels-last strides.
at::Tensor looked_up(const at::Tensor& images, const at::Tensor& pixel_codes);

/// As op::max_pool2d, without ceil_mode; the output has channels-last strides. Codes rise with
/// their numbers, so the affine map stays.
at::Tensor max_of_codes(const at::Tensor& codes, const Pool2dOptions& options);

/// codes: [N, C, H, W] -> float32 [N, C], the means of the numbers that they stand for.
at::Tensor mean_of_codes(const at::Tensor& codes, const Affine& affine);

}  // namespace composer
