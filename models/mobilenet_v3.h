// MobileNetV3 (Howard et al. 2019, arXiv:1905.02244).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/named_network.h"

namespace composer {

/// Input [N, 3, H, W], H and W at least 32; parameter names and default initialisation are
/// torchvision's. Dropout is the algorithm of that name.
class MobileNetV3 final : public NamedNetwork {
 public:
  struct Params {
    std::string model_name = "mobilenet_v3_large";
    int64_t num_classes = 1000;
    std::vector<std::string> initializers{};

    void fields(auto&& f) {
      f("model_name", model_name, "size of the network",
        one_of("mobilenet_v3_large", "mobilenet_v3_small"));
      f("num_classes", num_classes, "outputs", at_least(1));
      f("initializers", initializers, "applied in this order", one_of(initializer_names()));
    }
  };

  explicit MobileNetV3(const Params& params);

  std::optional<LibraryNames> names_in(const std::string& library) const override;
};

}  // namespace composer
