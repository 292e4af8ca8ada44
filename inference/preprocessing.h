// What an exported file does with images before the network.
#pragma once

#include <string>

#include "inference/graph/trained_network.h"

namespace composer {

enum class Preprocessing {
  none,       ///< the input is float32 [N, C, H, W], normalised
  normalize,  ///< the input is uint8 [N, H, W, C], resized and cropped as the preparation says
  resize,     ///< the input is uint8 [N, H, W, C] of any size
  portable,   ///< the same for ONNX runtimes without an antialiased Resize (resize_nodes.h)
};

/// UserError if a file cannot resize and crop as the network's preparation says: the shorter side
/// must be resized, by the filter "triangle" or "bicubic", to no less than the crop.
void check_resizes(const TrainedNetwork& network);

}  // namespace composer
