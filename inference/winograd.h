// A 3 x 3 convolution of float32 images by Winograd's algorithm (winograd_simd.h).
#pragma once

#include <memory>

#include "inference/packed_layer.h"

namespace composer {

/// Whether it computes such a layer, and faster than oneDNN. Errors are a share of the largest
/// number around; a number that is not finite makes NaN of the 2 x 2 outputs of each tile that it
/// lies in, those of whose windows it is not in included.
bool winograd_takes(const LayerParts& parts);

std::unique_ptr<PackedLayer> packed_by_winograd(const LayerParts& parts);

}  // namespace composer
