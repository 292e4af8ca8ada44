// A description of a network by its layers, to notice weights of another network.
#pragma once

#include <string>
#include <vector>

#include "nn/network/layer.h"

namespace composer {

/// One line per layer, "layer1.0.conv2: Conv2d(64, 64, 3x3)", in the order of the slots. Surgery is
/// visible even where it keeps all names and shapes (blurpool).
std::vector<std::string> outline(Block& root);

/// The part of a layer's description that holds in training only, " [in training: rounds to 8
/// bits]": after training the layer computes what the description without it says.
inline std::string in_training(const std::string& what) { return " [in training: " + what + "]"; }

/// The lines without the parts that hold in training only.
std::vector<std::string> in_use(std::vector<std::string> lines);

/// One line per layer that differs: "layer1.0.conv2: BlurConv2d: ... there, Conv2d(...) here". A
/// ReLU or GELU that is a layer in only one of the lists is no difference. ignored: patterns
/// (base/name_pattern.h) of tensors whose layers may differ.
std::vector<std::string> differences(const std::vector<std::string>& there,
                                     const std::vector<std::string>& here,
                                     const std::vector<std::string>& ignored = {});

}  // namespace composer
