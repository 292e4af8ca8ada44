// A 3 x 3 convolution of float32 images by Winograd's algorithm (winograd_simd.h).
#pragma once

#include <memory>

#include "inference/packed_layer.h"

namespace composer {

/// Whether it computes such a layer, and faster than oneDNN.
bool winograd_takes(const LayerParts& parts);

std::unique_ptr<PackedLayer> packed_by_winograd(const LayerParts& parts);

}  // namespace composer
