// Finds layers of a network by their slots, and replaces them in place.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/network/layer.h"

namespace composer {

struct PlacedLayer {
  std::string path;  ///< "layer2.0.conv2"
  Layer* layer;
  Activation next;  ///< its activation in through_slots()
  Slot* slot;
};

/// All slots under `root`, in order; those of a block follow the block. A block in several slots is
/// entered once.
std::vector<PlacedLayer> placed_layers(Block& root);

struct Replacement {
  std::string path;    ///< "layer2.0.conv2"
  std::string before;  ///< describe() of the old layer
  std::string after;
};

/// "layer2.0.conv2: Conv2d(...) -> BlurConv2d: ...", one line each.
std::vector<std::string> lines(const std::vector<Replacement>& replacements);

/// Visits every slot under `root`, breadth first, in order. `replace` returns the new layer, or
/// null to keep the old one. A replacement is not visited again; it should hold the original's
/// parameters under their old names. Tell an existing optimizer: Optimizer::follow(root).
std::vector<Replacement> replace_layers(
    Block& root,
    const std::function<std::shared_ptr<Layer>(const std::string& path, Layer& layer)>& replace);

}  // namespace composer
