#include "models/named_models.h"

namespace composer {

const std::vector<NamedModel>& named_models() {
  static const std::vector<NamedModel> all = [] {
    constexpr ImageSize imagenet{224, 224}, cifar{32, 32}, mnist{28, 28};
    std::vector<NamedModel> models;
    for (const char* name : {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"})
      models.push_back({name, "resnet", {{"model_name", name}}, imagenet});
    const auto variant = [&](const char* name, const char* depth, const char* groups,
                             const char* width) {
      models.push_back({name,
                        "resnet",
                        {{"model_name", depth}, {"groups", groups}, {"width_per_group", width}},
                        imagenet});
    };
    variant("resnext50_32x4d", "resnet50", "32", "4");
    variant("resnext101_32x8d", "resnet101", "32", "8");
    variant("resnext101_64x4d", "resnet101", "64", "4");
    variant("wide_resnet50_2", "resnet50", "1", "128");
    variant("wide_resnet101_2", "resnet101", "1", "128");
    for (const char* name :
         {"resnet_9", "resnet_20", "resnet_56", "resnet9", "resnet20", "resnet56"})
      models.push_back({name, "resnet_cifar", {{"model_name", name}}, cifar});
    models.push_back({"resnet", "resnet", {}, imagenet});
    models.push_back({"resnet_cifar", "resnet_cifar", {}, cifar});
    models.push_back({"airbench", "airbench", {}, cifar});
    models.push_back({"mnist_classifier", "mnist_classifier", {}, mnist});
    return models;
  }();
  return all;
}

}  // namespace composer
