// Gradients of convolutions' weights on processors with instructions for bfloat16, where oneDNN's
// take 1.2 to 4 times as long.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "composer/network/operations.h"
#include "composer/network/pixel_tiles.h"

namespace composer {

/// Nothing where weight_gradient() cannot run: the processor has no such instructions, or the
/// system does not permit them. COMPOSER_TILES=avx512_bf16 or none in the environment asks for less
/// than what is there.
std::optional<tiles::Instructions> tile_instructions();

/// Whether weight_gradient() takes such a convolution: one group, no dilation.
bool weight_gradient_takes(const Conv2dOptions& options);

/// The gradient of a convolution's weight, [out, in, kh, kw] in channels_last order, float32: sums
/// of exact products. input [N, in, H, W] and gradient [N, out, OH, OW], that of its output, are
/// bfloat16 in channels_last order. Sums depend on the number of threads in their last bits.
at::Tensor weight_gradient(const at::Tensor& input, const at::Tensor& gradient,
                           const Conv2dOptions& options, tiles::Instructions instructions);

}  // namespace composer
