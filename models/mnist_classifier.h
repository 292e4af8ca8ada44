// A small convolutional network for MNIST.
#pragma once

#include <string>
#include <vector>

#include "models/named_network.h"

namespace composer {

/// Two 3x3 convolutions (16 and 32 channels), pooling to 4 x 4, two linear layers. Input [N, 1, H,
/// W], H and W at least 5.
class MnistClassifier final : public NamedNetwork {
 public:
  struct Params {
    int64_t num_classes = 10;
    std::vector<std::string> initializers{};

    void fields(auto&& f) {
      f("num_classes", num_classes, "outputs", at_least(1));
      f("initializers", initializers, "applied in this order", one_of(initializer_names()));
    }
  };

  explicit MnistClassifier(const Params& params);
};

}  // namespace composer
