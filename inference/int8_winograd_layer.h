// A 3 x 3 convolution of 8-bit codes by Winograd's algorithm in integers (int8_winograd.h).
#pragma once

#include <memory>

#include "inference/packed_layer.h"

namespace composer {

/// Whether packed_by_int8_winograd() supports the layer: a 3 x 3 convolution of stride 1 from codes
/// to codes with sums of at most 25 bits, on a processor with AVX512-VNNI.
bool int8_winograd_takes(const LayerParts& parts, const LayerCodes& codes);

/// Whether packed_by_int8_winograd() is faster than int8_layer() for single images on
/// at::get_num_threads() threads; never with AMX. It needs 8 times the memory of the weights.
/// parts: a layer that int8_winograd_takes().
bool int8_winograd_is_quicker(const LayerParts& parts);

/// A layer whose codes equal those of int8_layer().
std::unique_ptr<PackedLayer> packed_by_int8_winograd(const LayerParts& parts,
                                                     const LayerCodes& codes);

}  // namespace composer
