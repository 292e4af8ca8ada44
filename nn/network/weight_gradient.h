// Gradients of convolutions' weights on processors with instructions for bfloat16, where oneDNN's
// take 1.2 to 4 times as long.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string_view>

#include "nn/network/operations.h"
#include "nn/network/pixel_tiles.h"

namespace composer {

/// COMPOSER_TILES in the environment: none, avx512_bf16, or empty for all that the processor has.
std::string_view permitted_tiles();

/// Nothing where weight_gradient() cannot run: the processor has no such instructions, or the
/// system or permitted_tiles() does not permit them.
std::optional<tiles::Instructions> tile_instructions();

/// Whether weight_gradient() takes such a convolution: one group, no dilation.
bool weight_gradient_takes(const Conv2dOptions& options);

/// The gradient of a convolution's weight, [out, in, kh, kw] in channels_last order, float32: sums
/// of exact products. input [N, in, H, W] and gradient [N, out, OH, OW], that of its output, are
/// bfloat16 in channels_last order. Sums depend on the number of threads in their last bits.
at::Tensor weight_gradient(const at::Tensor& input, const at::Tensor& gradient,
                           const Conv2dOptions& options, tiles::Instructions instructions);

}  // namespace composer
