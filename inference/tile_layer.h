// Convolutions and linear layers with codes by AMX tiles or AVX-512's dot products. oneDNN's
// compute as fast, but LibTorch's operators around them take longer than a small layer.
#pragma once

#include <memory>
#include <optional>

#include "inference/packed_layer.h"

namespace composer {

enum class CodeInstructions { avx512_vnni, amx_int8 };

/// The best that the processor has and COMPOSER_TILES in the environment permits: without AMX, for
/// avx512_bf16; nothing, for none.
std::optional<CodeInstructions> code_instructions();

/// Whether tile_layer() takes such a layer: one group, no dilation, sums of less than 32 bits, and
/// without AMX images that need not be copied where they are one pixel.
bool tile_layer_takes(const LayerParts& parts, const LayerCodes& codes);

/// As packed(): the same codes but for sums that lie between two, and with any number of threads.
/// instructions: at most code_instructions().
std::unique_ptr<PackedLayer> tile_layer(const LayerParts& parts, const LayerCodes& codes,
                                        CodeInstructions instructions);

}  // namespace composer
