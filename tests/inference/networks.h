// The networks that an export must carry: each model, and surgery that leaves its mark on
// inference.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/blurpool.h"
#include "algorithms/factorize.h"
#include "algorithms/ghost_batchnorm.h"
#include "algorithms/squeeze_excite.h"
#include "algorithms/stochastic_depth.h"
#include "algorithms/weight_standardization.h"
#include "inference/graph/trained_network.h"
#include "inference/quantization/simulate.h"
#include "models/airbench.h"
#include "models/convnext.h"
#include "models/efficientnet.h"
#include "models/mnist_classifier.h"
#include "models/mobilenet_v3.h"
#include "models/resnet.h"
#include "models/resnet_cifar.h"
#include "models/vgg.h"
#include "models/wide_resnet.h"

namespace composer::test {

struct NetworkCase {
  std::string name;
  std::function<std::shared_ptr<Model>()> make;
  std::vector<int64_t> image;  ///< [C, H, W]
};

inline std::shared_ptr<Model> small_resnet(const std::string& name, const std::string& norm) {
  return std::make_shared<ResNet>(
      ResNet::Params{.model_name = name, .num_classes = 7, .initializers = {}, .norm = norm});
}

inline std::shared_ptr<Model> cut(std::shared_ptr<Model> model,
                                  const std::function<void(Model&)>& surgery) {
  surgery(*model);
  return model;
}

inline std::vector<NetworkCase> network_cases() {
  const auto cifar = [] {
    return std::make_shared<ResNetCifar>(
        ResNetCifar::Params{.model_name = "resnet_20", .initializers = {"kaiming_normal"}});
  };
  const std::vector<int64_t> small{3, 32, 32}, photo{3, 64, 64};
  return {
      {"resnet18", [] { return small_resnet("resnet18", "batch_norm"); }, photo},
      {"resnet50", [] { return small_resnet("resnet50", "batch_norm"); }, photo},
      {"resnet18 with group norm", [] { return small_resnet("resnet18", "group_norm"); }, photo},
      {"resnet_20", cifar, small},
      {"airbench",
       [] {
         return std::make_shared<Airbench>(Airbench::Params{.widths = {16, 32}});
       },
       small},
      {"mnist_classifier",
       [] { return std::make_shared<MnistClassifier>(MnistClassifier::Params{}); },
       {1, 28, 28}},
      {"resnet18d",
       [] {
         return std::make_shared<ResNet>(ResNet::Params{
             .model_name = "resnet18", .num_classes = 7, .initializers = {}, .variant = "d"});
       },
       photo},
      {"mobilenet_v3_small",
       [] {
         return std::make_shared<MobileNetV3>(MobileNetV3::Params{
             .model_name = "mobilenet_v3_small", .num_classes = 7, .initializers = {}});
       },
       photo},
      {"efficientnet_b0",
       [] {
         return std::make_shared<EfficientNet>(
             EfficientNet::Params{.num_classes = 7, .initializers = {}});
       },
       photo},
      {"convnext_tiny",
       [] {
         return std::make_shared<ConvNeXt>(
             ConvNeXt::Params{.num_classes = 7, .layer_scale = 0.5, .initializers = {}});
       },
       photo},
      {"blurpool",
       [] {
         return cut(small_resnet("resnet18", "batch_norm"),
                    [](Model& model) { apply_blurpool(model, {}); });
       },
       photo},
      {"squeeze_excite",
       [=] {
         return cut(cifar(), [](Model& model) {
           apply_squeeze_excite(model, {.latent_channels = 4, .min_channels = 32}, 1);
         });
       },
       small},
      {"factorize",
       [=] {
         return cut(cifar(), [](Model& model) {
           apply_factorization(model, {.min_channels = 32, .min_features = 16});
         });
       },
       small},
      {"stochastic_depth",
       [=] { return cut(cifar(), [](Model& model) { apply_stochastic_depth(model, {}, {}); }); },
       small},
      {"ghost_batchnorm",
       [=] { return cut(cifar(), [](Model& model) { apply_ghost_batchnorm(model, 2); }); }, small},
      {"weight_standardization",
       [] {
         return cut(small_resnet("resnet18", "batch_norm"),
                    [](Model& model) { apply_weight_standardization(model); });
       },
       photo},
      {"resnext50_32x4d",
       [] {
         return std::make_shared<ResNet>(ResNet::Params{.model_name = "resnet50",
                                                        .num_classes = 7,
                                                        .initializers = {},
                                                        .groups = 32,
                                                        .width_per_group = 4});
       },
       small},
      {"wide_resnet_16_4",
       [] {
         return std::make_shared<WideResNet>(
             WideResNet::Params{.depth = 16, .width = 4, .initializers = {"kaiming_normal"}});
       },
       small},
      {"airbench of three convolutions a group",
       [] {
         return std::make_shared<Airbench>(
             Airbench::Params{.widths = {16, 32}, .group_convs = 3, .activation = "silu"});
       },
       small},
  };
}

/// Of 130 million weights, and a pooling that its own image size alone makes a simple one.
inline NetworkCase vgg_case() {
  return {"vgg11_bn",
          [] {
            return std::make_shared<Vgg>(
                Vgg::Params{.model_name = "vgg11_bn", .num_classes = 7, .initializers = {}});
          },
          {3, 224, 224}};
}

/// Weights of a network that has seen data: norms have statistics of their own.
inline std::shared_ptr<Model> settled(const NetworkCase& given) {
  at::manual_seed(11);
  auto model = given.make();
  const at::NoGradGuard no_grad;
  for (const auto& buffer : model->named_buffers()) {
    if (buffer.key().ends_with("running_mean")) buffer.value().normal_(0, 0.1);
    if (buffer.key().ends_with("running_var"))
      buffer.value().uniform_(0.5, 2).mul_(given.name == "weight_standardization" ? 500 : 1);
  }
  model->eval();
  return model;
}

inline at::Tensor random_images(const NetworkCase& given, int64_t count) {
  return at::randn({count, given.image[0], given.image[1], given.image[2]});
}

inline TrainedNetwork trained(const NetworkCase& given, Model& model) {
  TrainedNetwork network;
  network.graph = record(model, random_images(given, 1));
  const auto channels = static_cast<size_t>(given.image[0]);
  network.preparation = {
      .channels = given.image[0],
      .resize_size = given.image[1],
      .size = {given.image[1], given.image[2]},
      .normalization = {std::vector<double>(channels, 120.0), std::vector<double>(channels, 60.0)}};
  for (int64_t i = 0; i < network.classes(); ++i)
    network.class_names.push_back("class \"" + std::to_string(i) + "\"");
  network.metrics = {{"metrics/eval/Accuracy", 0.75}};
  return network;
}

/// What the graph's operations compute, one by one.
inline at::Tensor computed(const Graph& graph, const at::Tensor& input) {
  return pass(graph, input, [](size_t, at::Tensor&) {});
}

/// The largest distance, as a share of the largest number.
inline double relative(const at::Tensor& given, const at::Tensor& expected) {
  return ((given - expected).abs().max() / expected.abs().max()).item<double>();
}

/// A network that computes the function, whose weights are what it has captured.
class Formula : public Model {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;
  explicit Formula(Function function) : function_(std::move(function)) {}
  at::Tensor forward(const at::Tensor& input) override { return function_(input); }
  int64_t num_classes() const override { return 1; }

 private:
  Function function_;
};

inline TrainedNetwork network_of(const Formula::Function& function, const at::Tensor& image) {
  Formula model(function);
  TrainedNetwork network;
  network.graph = record(model, image);
  return network;
}

}  // namespace composer::test
