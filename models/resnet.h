// The ImageNet residual networks of torchvision (v1.5: stride in the 3x3 convolutions), and timm's
// variant d.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/named_network.h"

namespace composer {

/// Input [N, 3, H, W], H and W at least 32; default initialisation is torchvision's; parameter
/// names are torchvision's, those of variant d timm's. Variant d (He et al. 2019,
/// arXiv:1812.01187): a stem of three 3x3 convolutions (32, 32, 64 channels), and shortcuts that
/// pool before they project.
class ResNet final : public NamedNetwork {
 public:
  struct Params {
    std::string model_name = "resnet50";
    int64_t num_classes = 1000;
    std::vector<std::string> initializers{};
    std::string loss_name = "soft_cross_entropy";
    int64_t groups = 1;
    int64_t width_per_group = 64;
    std::string norm = "batch_norm";
    std::string variant = "b";
    bool pretrained = false;

    void fields(auto&& f) {
      f("model_name", model_name, "depth of the network",
        one_of("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"));
      f("num_classes", num_classes, "outputs", at_least(1));
      f("initializers", initializers, "applied in this order", one_of(initializer_names()));
      f("loss_name", loss_name, "loss on the logits",
        one_of("soft_cross_entropy", "binary_cross_entropy_with_logits"));
      f("groups", groups, "groups of the 3x3 convolutions (ResNeXt)", at_least(1));
      f("width_per_group", width_per_group, "channels of a group in the first stage", at_least(1));
      f("norm", norm,
        "normalisation after each convolution; group_norm has 32 groups, or "
        "fewer, of two channels each",
        one_of("batch_norm", "group_norm"));
      f("variant", variant,
        "b: torchvision's; d: a stem of three 3x3 convolutions, and shortcuts that pool",
        one_of("b", "d"));
      f("pretrained", pretrained, "not offered: give load_path a file of weights instead");
    }
    std::string check() const;
  };

  explicit ResNet(const Params& params);

  at::Tensor loss(const at::Tensor& logits, const Target& target, Over over = Over::batch) override;
  std::string_view loss_name() const override { return params_.loss_name; }
  std::optional<LibraryNames> names_in(const std::string& library) const override;
  bool by_rows() const override { return true; }

 private:
  Params params_;
};

}  // namespace composer
