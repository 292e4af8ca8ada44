// Residual networks for small images.
#pragma once

#include <string>
#include <vector>

#include "models/named_network.h"
#include "models/residual_blocks.h"

namespace composer {

/// resnet_20 and resnet_56: three stages of 3 or 9 basic blocks with 16, 32, 64 channels (He et al.
/// 2016, section 4.2; with projection shortcuts). resnet_9: a wide shallow network that learns
/// fast, its own BatchNorm2d with momentum 0.9. Input [N, 3, H, W], made for 32 x 32. Parameter
/// names: conv1, bn1, layer1.0.conv1, ..., fc.
class ResNetCifar final : public NamedNetwork {
 public:
  struct Params {
    std::string model_name = "resnet_56";
    int64_t num_classes = 10;
    std::vector<std::string> initializers{};
    std::string norm = "batch_norm";

    void fields(auto&& f) {
      f("model_name", model_name, "depth of the network",
        one_of("resnet_9", "resnet_20", "resnet_56", "resnet9", "resnet20", "resnet56"));
      f("num_classes", num_classes, "outputs", at_least(1));
      f("initializers", initializers, "applied in this order", one_of(initializer_names()));
      f("norm", norm,
        "normalisation after each convolution; group_norm has 32 groups, or fewer, of two channels "
        "each",
        one_of("batch_norm", "group_norm"));
    }
  };

  explicit ResNetCifar(const Params& params);

  bool by_rows() const override { return true; }

 private:
  void add_stages(int64_t blocks);
  void add_resnet_9();
  void add_conv_block(const std::string& index, int64_t in_channels, int64_t out_channels,
                      bool pooled);

  Norm norm_;
};

}  // namespace composer
