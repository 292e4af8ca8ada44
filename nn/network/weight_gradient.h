// Weight gradients of convolutions on processors with bfloat16 instructions, where oneDNN takes 1.2
// to 4 times as long.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string_view>

#include "nn/network/operations.h"
#include "nn/network/pixel_tiles.h"

namespace composer {

/// The environment variable COMPOSER_TILES: none, avx512_bf16, or empty for all instructions that
/// the processor has.
std::string_view permitted_tiles();

/// Nothing where weight_gradient() cannot run: the processor lacks the instructions, or the system
/// or permitted_tiles() forbids them.
std::optional<tiles::Instructions> tile_instructions();

/// Whether weight_gradient() supports such a convolution: one group, no dilation, equal strides.
bool weight_gradient_takes(const Conv2dOptions& options);

/// The gradient of a convolution's weight, [out, in, kh, kw] in channels_last order, float32, as
/// sums of exact products. input [N, in, H, W] and the output's gradient [N, out, OH, OW] are
/// bfloat16 in channels_last order. The last bits depend on the number of threads.
at::Tensor weight_gradient(const at::Tensor& input, const at::Tensor& gradient,
                           const Conv2dOptions& options, tiles::Instructions instructions);

}  // namespace composer
