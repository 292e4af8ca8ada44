// ConvNeXt (Liu et al. 2022, arXiv:2201.03545).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/named_network.h"

namespace composer {

/// Input [N, 3, H, W], H and W at least 32; parameter names and default initialisation are
/// torchvision's. Stochastic depth is the algorithm stochastic_depth with scale_by_keep.
class ConvNeXt final : public NamedNetwork {
 public:
  struct Params {
    std::string model_name = "convnext_tiny";
    int64_t num_classes = 1000;
    double layer_scale = 1e-6;
    std::vector<std::string> initializers{};

    void fields(auto&& f) {
      f("model_name", model_name, "size of the network",
        one_of("convnext_tiny", "convnext_small", "convnext_base", "convnext_large"));
      f("num_classes", num_classes, "outputs", at_least(1));
      f("layer_scale", layer_scale, "what multiplies each channel of a block's branch at first",
        at_least(0.0));
      f("initializers", initializers, "applied in this order", one_of(initializer_names()));
    }
  };

  explicit ConvNeXt(const Params& params);

  std::optional<LibraryNames> names_in(const std::string& library) const override;
};

}  // namespace composer
