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
    for (const char* depth : {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"})
      models.push_back({depth + std::string("d"),
                        "resnet",
                        {{"model_name", depth}, {"variant", "d"}},
                        imagenet});
    const auto family = [&](const char* component, std::vector<std::string> names) {
      for (const auto& name : names)
        models.push_back({name, component, {{"model_name", name}}, imagenet});
    };
    family("vgg", {"vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn"});
    family("mobilenet_v3", {"mobilenet_v3_large", "mobilenet_v3_small"});
    family("efficientnet", {"efficientnet_b0", "efficientnet_b1", "efficientnet_b2",
                            "efficientnet_b3", "efficientnet_b4"});
    family("convnext", {"convnext_tiny", "convnext_small", "convnext_base", "convnext_large"});
    for (const char* name :
         {"resnet_9", "resnet_20", "resnet_56", "resnet9", "resnet20", "resnet56"})
      models.push_back({name, "resnet_cifar", {{"model_name", name}}, cifar});
    models.push_back(
        {"wide_resnet_28_10", "wide_resnet", {{"depth", "28"}, {"width", "10"}}, cifar});
    models.push_back({"resnet", "resnet", {}, imagenet});
    models.push_back({"resnet_cifar", "resnet_cifar", {}, cifar});
    models.push_back({"vgg", "vgg", {}, imagenet});
    models.push_back({"mobilenet_v3", "mobilenet_v3", {}, imagenet});
    models.push_back({"efficientnet", "efficientnet", {}, imagenet});
    models.push_back({"convnext", "convnext", {}, imagenet});
    models.push_back({"wide_resnet", "wide_resnet", {}, cifar});
    models.push_back({"airbench", "airbench", {}, cifar});
    models.push_back({"mnist_classifier", "mnist_classifier", {}, mnist});
    return models;
  }();
  return all;
}

}  // namespace composer
