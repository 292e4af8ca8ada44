// Numbers as codes of 8 bits, as PyTorch's quantized tensors have them.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "inference/graph/trained_network.h"

namespace composer {

/// Of activations: 8; 7 on an x86 processor that has none of AVX512-VNNI, AVX-VNNI and AMX-INT8,
/// whose sums of two products of 8 bits overflow.
int64_t activation_bits_here();

/// Codes 0 to 2^bits - 1 that reach from `low` to `high` and have one for 0.
Affine codes_over(float low, float high, int64_t bits);

/// float32 values -> the numbers of the codes 0 to 2^bits - 1 nearest to them.
at::Tensor rounded_to_codes(const at::Tensor& values, const Affine& codes, int64_t bits);

/// weight: float32 [out, ...] -> float32 [out]: the largest of each output stands at code 127.5.
at::Tensor scales_of(const at::Tensor& weight);

/// weight: float32 [out, ...], scales: float32 [out] -> int8.
at::Tensor codes_of(const at::Tensor& weight, const at::Tensor& scales);

/// The float32 numbers that int8 codes [out, ...] stand for.
at::Tensor numbers_of(const at::Tensor& codes, const at::Tensor& scales);

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
