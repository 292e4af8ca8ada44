// A 3 x 3 convolution of float32 images by Winograd's algorithm (winograd_simd.h).
#pragma once

#include <cstdint>
#include <memory>

#include "inference/packed_layer.h"

namespace composer {

/// The tiles that are quickest for such a layer: 2 or 4 output pixels either way; 0 where oneDNN is
/// quicker, or it is another layer. Errors are a share of the largest number around; a number that
/// is not finite makes NaN of other outputs too of each tile that it lies in.
int64_t winograd_tile_size(const LayerParts& parts);

std::unique_ptr<PackedLayer> packed_by_winograd(const LayerParts& parts, int64_t tile_size);

}  // namespace composer
