// Wide residual networks for small images (Zagoruyko and Komodakis 2016, arXiv:1605.07146). Wide
// ResNets for ImageNet are ResNets with another width_per_group.
#pragma once

#include <string>
#include <vector>

#include "models/named_network.h"

namespace composer {

/// Pre-activation blocks of two 3x3 convolutions, (depth - 4) / 6 of them in each of three stages
/// with 16, 32 and 64 times `width` channels. Input [N, 3, H, W], made for 32 x 32. Parameter names
/// are those of the usual PyTorch version: conv1, block1.layer.0.bn1, block1.layer.0.conv1, ...,
/// block1.layer.0.convShortcut, bn1, fc.
class WideResNet final : public NamedNetwork {
 public:
  struct Params {
    int64_t depth = 28;
    int64_t width = 10;
    int64_t num_classes = 10;
    std::vector<std::string> initializers{};

    void fields(auto&& f) {
      f("depth", depth, "layers: 4 more than a multiple of 6", at_least(10));
      f("width", width, "how many times wider than 16, 32 and 64 channels", at_least(1));
      f("num_classes", num_classes, "outputs", at_least(1));
      f("initializers", initializers, "applied in this order", one_of(initializer_names()));
    }
    std::string check() const {
      return depth % 6 == 4 ? "" : "depth: must be 4 more than a multiple of 6, for instance 28";
    }
  };

  explicit WideResNet(const Params& params);

  bool by_rows() const override { return true; }
};

}  // namespace composer
