// What a network computes, as far as its layers tell: to notice weights of another one.
#pragma once

#include <string>
#include <vector>

#include "nn/network/layer.h"

namespace composer {

/// One line a layer that says what it is, "layer1.0.conv2: Conv2d(64, 64, 3x3)", in the order of
/// the slots. Surgery shows even where it keeps every name and shape (blurpool).
std::vector<std::string> outline(Block& root);

/// What a layer's description says of training alone, " [in training: rounds to 8 bits]":
/// afterwards it computes what one without these words does.
inline std::string in_training(const std::string& what) { return " [in training: " + what + "]"; }

/// The lines without what they say of training alone.
std::vector<std::string> in_use(std::vector<std::string> lines);

/// One line a layer that is not the same in both: "layer1.0.conv2: BlurConv2d: ... there,
/// Conv2d(...) here". A ReLU or GELU that only one of them has as a layer is no difference.
/// ignored: patterns (base/name_pattern.h) of tensors whose layers may differ.
std::vector<std::string> differences(const std::vector<std::string>& there,
                                     const std::vector<std::string>& here,
                                     const std::vector<std::string>& ignored = {});

}  // namespace composer
