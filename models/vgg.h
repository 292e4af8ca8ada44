// VGG with batch norm (Simonyan and Zisserman 2015, arXiv:1409.1556).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/params/params.h"
#include "models/initializers.h"
#include "nn/network/model.h"

namespace composer {

/// Input [N, 3, H, W] of any size from 32 up; parameter names and default initialisation are
/// torchvision's. Its dropout is the algorithm of that name, with layers: all and drop_rate: 0.5
/// (of the three linear layers torchvision spares the first).
class Vgg final : public Model {
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

  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
  int64_t num_classes() const override { return params_.num_classes; }
  int64_t stride() const override { return 32; }
  std::optional<LibraryNames> names_in(const std::string& library) const override;
  std::string describe() const override { return params_.model_name; }

 private:
  Params params_;
};

}  // namespace composer
