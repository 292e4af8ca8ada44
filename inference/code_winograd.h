// A 3 x 3 convolution of 8-bit codes by Winograd's algorithm in integers (int8_winograd.h).
#pragma once

#include <memory>

#include "inference/packed_layer.h"

namespace composer {

/// Whether packed_by_code_winograd() takes such a layer: on processors with AVX512-VNNI, 3 x 3 of
/// stride 1, from codes to codes, with sums of at most 25 bits.
bool code_winograd_takes(const LayerParts& parts, const LayerCodes& codes);

/// Whether that is quicker than tile_layer(), for single images by at::get_num_threads() threads:
/// not where there are AMX tiles. It takes 8 times the memory of the weights. parts: of a layer
/// that code_winograd_takes() takes.
bool code_winograd_is_quicker(const LayerParts& parts);

/// The same codes as tile_layer()'s, bit by bit.
std::unique_ptr<PackedLayer> packed_by_code_winograd(const LayerParts& parts,
                                                     const LayerCodes& codes);

}  // namespace composer
