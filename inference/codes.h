// Tensors whose numbers are codes of 8 bits.
#pragma once

#include <ATen/ATen.h>

#include "inference/graph/trained_network.h"

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

}  // namespace composer
