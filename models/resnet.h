// The ImageNet residual networks as torchvision has them (v1.5: stride in the 3x3 convolutions),
// and as timm has their variant d.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/params/params.h"
#include "models/initializers.h"
#include "nn/network/model.h"

namespace composer {

/// Input [N, 3, H, W] of any size from 32 up; parameter names and default initialisation are
/// torchvision's, names of variant d timm's. Variant d (He et al. 2019, arXiv:1812.01187): a stem
/// of three 3x3 convolutions (32, 32, 64 channels), and shortcuts that pool before they project.
class ResNet final : public Model {
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

  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  at::Tensor loss(const at::Tensor& logits, const Target& target, Over over = Over::batch) override;
  std::string_view loss_name() const override { return params_.loss_name; }
  int64_t num_classes() const override { return params_.num_classes; }
  int64_t stride() const override { return 32; }
  std::optional<LibraryNames> names_in(const std::string& library) const override;
  bool by_rows() const override { return true; }
  std::string describe() const override {
    return params_.model_name + (params_.variant == "d" ? "d" : "");
  }

 private:
  Params params_;
};

}  // namespace composer
