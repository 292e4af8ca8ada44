// A 3 x 3 convolution of float32 images by Winograd's algorithm (winograd_simd.h).
#pragma once

#include <cstdint>
#include <memory>

#include "inference/packed_layer.h"

namespace composer {

/// The side of the fastest tiles for the layer, 2 or 4 output pixels; 0 where oneDNN is faster or
/// the layer is not supported. Rounding errors are relative to the largest number in the tile, and
/// a number that is not finite makes other outputs of its tiles NaN.
int64_t winograd_tile_size(const LayerParts& parts);

std::unique_ptr<PackedLayer> packed_by_winograd(const LayerParts& parts, int64_t tile_size);

}  // namespace composer
