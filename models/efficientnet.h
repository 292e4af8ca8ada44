// EfficientNet (Tan and Le 2019, arXiv:1905.11946).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/named_network.h"

namespace composer {

/// Input [N, 3, H, W], H and W at least 32; parameter names and default initialisation are
/// torchvision's. Dropout and stochastic depth are the algorithms of these names, stochastic depth
/// with scale_by_keep.
class EfficientNet final : public NamedNetwork {
 public:
  struct Params {
    std::string model_name = "efficientnet_b0";
    int64_t num_classes = 1000;
    std::vector<std::string> initializers{};

    void fields(auto&& f) {
      f("model_name", model_name, "size of the network",
        one_of("efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3",
               "efficientnet_b4"));
      f("num_classes", num_classes, "outputs", at_least(1));
      f("initializers", initializers, "applied in this order", one_of(initializer_names()));
    }
  };

  explicit EfficientNet(const Params& params);

  std::optional<LibraryNames> names_in(const std::string& library) const override;
};

}  // namespace composer
