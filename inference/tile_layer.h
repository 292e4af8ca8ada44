// Convolutions and linear layers with codes by AMX tiles. oneDNN's compute as fast, but LibTorch's
// operators around them take longer than a small layer.
#pragma once

#include <memory>

#include "inference/packed_layer.h"

namespace composer {

/// Whether the processor has such tiles, which COMPOSER_TILES in the environment may forbid, and
/// they take such a layer: one group, no dilation, and sums of less than 32 bits.
bool tile_layer_takes(const LayerParts& parts, const LayerCodes& codes);

/// As packed(): the same codes but for sums that lie between two, and with any number of threads.
std::unique_ptr<PackedLayer> tile_layer(const LayerParts& parts, const LayerCodes& codes);

}  // namespace composer
