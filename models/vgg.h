// VGG with batch norm (Simonyan and Zisserman 2015, arXiv:1409.1556).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/named_network.h"

namespace composer {

/// Input [N, 3, H, W], H and W at least 32; parameter names and default initialisation are
/// torchvision's. Dropout is the algorithm of that name with layers: all and drop_rate: 0.5
/// (torchvision leaves out the first of the three linear layers).
class Vgg final : public NamedNetwork {
 public:
  struct Params {
    std::string model_name = "vgg16_bn";
    int64_t num_classes = 1000;
    std::vector<std::string> initializers{};

    void fields(auto&& f) {
      f("model_name", model_name, "depth of the network",
        one_of("vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn"));
      f("num_classes", num_classes, "outputs", at_least(1));
      f("initializers", initializers, "applied in this order", one_of(initializer_names()));
    }
  };

  explicit Vgg(const Params& params);

  std::optional<LibraryNames> names_in(const std::string& library) const override;
};

}  // namespace composer
