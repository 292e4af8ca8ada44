// Conversion between numbers and 8-bit codes, as in PyTorch's quantized tensors.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "inference/graph/trained_network.h"

namespace composer {

/// The bits of an activation's code: 8; 7 on an x86 processor without AVX512-VNNI, AVX-VNNI and
/// AMX-INT8, whose sums of two 8-bit products overflow.
int64_t activation_bits_here();

/// The scale and zero point of codes 0 to 2^bits - 1 that cover [low, high] and represent 0
/// exactly.
Affine codes_over(float low, float high, int64_t bits);

/// float32 values -> the numbers of the nearest codes 0 to 2^bits - 1.
at::Tensor rounded_to_codes(const at::Tensor& values, const Affine& codes, int64_t bits);

/// scales [out] -> [out, 1, ...], a factor of weights [out, ...] with `dimensions` dimensions.
at::Tensor for_each_output(const at::Tensor& scales, int64_t dimensions);

/// weight: float32 [out, ...] -> float32 [out]: the largest absolute value of each output
/// corresponds to code 127.5.
at::Tensor scales_of(const at::Tensor& weight);

/// weight: float32 [out, ...], scales: float32 [out] -> int8.
at::Tensor codes_of(const at::Tensor& weight, const at::Tensor& scales);

/// codes: int8 [out, ...], scales: float32 [out] -> the float32 numbers of the codes.
at::Tensor numbers_of(const at::Tensor& codes, const at::Tensor& scales);

/// float32 -> the nearest uint8 codes of `bits` bits, ties to even; the strides stay.
at::Tensor codes_of(const at::Tensor& numbers, const Affine& affine, int64_t bits);

/// uint8 codes -> float32; the strides stay.
at::Tensor numbers_of(const at::Tensor& codes, const Affine& affine);

/// Table of the code of each byte of an image in each channel: uint8 [256, C].
at::Tensor pixel_codes(const Normalization& normalization, const Affine& affine, int64_t bits);

/// images: uint8 [N, H, W, C] -> their codes [N, C, H, W] with channels-last strides.
at::Tensor looked_up(const at::Tensor& images, const at::Tensor& pixel_codes);

}  // namespace composer
