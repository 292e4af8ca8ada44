// Convolutions and linear layers with codes by oneDNN's operators.
#pragma once

#include <memory>

#include "inference/packed_layer.h"

namespace composer {

/// Every layer that packed() takes.
std::unique_ptr<PackedLayer> onednn_layer(const LayerParts& parts, const LayerCodes& codes);

}  // namespace composer
