#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "composer/checkpoint/weights.h"
#include "models/airbench.h"
#include "models/all.h"
#include "models/mnist_classifier.h"
#include "models/residual_blocks.h"
#include "models/resnet.h"
#include "models/resnet_cifar.h"
#include "models/wide_resnet.h"
#include "nn/network/layers.h"
#include "nn/network/outline.h"
#include "nn/network/surgery.h"
#include "tests/python.h"

namespace composer::models_test {
namespace {

using Catch::Matchers::Contains;

int64_t parameter_count(const Model& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

std::shared_ptr<Model> named(const std::string& name) {
  Registry registry;
  add_builtin_models(registry);
  const auto& found = *std::ranges::find(named_models(), name, &NamedModel::name);
  const auto component = registry.models.make(found.component);
  Value map = Value::map();
  for (const auto& [key, text] : found.parameters) map.set(key, Value::scalar(text));
  Problems problems;
  read_fields(map, component->fields(), name, problems);
  REQUIRE(problems.empty());
  return component->build();
}

TEST_CASE("networks have the published number of parameters", "[models][slow]") {
  const auto [name, count] = GENERATE(table<std::string, int64_t>({
      {"resnet18", 11'689'512},          {"resnet34", 21'797'672},
      {"resnet50", 25'557'032},          {"resnet101", 44'549'160},
      {"resnet152", 60'192'808},         {"resnet50d", 25'576'264},
      {"resnext50_32x4d", 25'028'904},   {"wide_resnet50_2", 68'883'240},
      {"vgg11_bn", 132'868'840},         {"vgg16_bn", 138'365'992},
      {"mobilenet_v3_large", 5'483'032}, {"mobilenet_v3_small", 2'542'856},
      {"efficientnet_b0", 5'288'548},    {"efficientnet_b1", 7'794'184},
      {"efficientnet_b2", 9'109'994},    {"efficientnet_b3", 12'233'232},
      {"efficientnet_b4", 19'341'616},   {"convnext_tiny", 28'589'128},
      {"convnext_small", 50'223'688},    {"convnext_base", 88'591'464},
      {"wide_resnet_28_10", 36'479'194},
  }));
  INFO(name);
  CHECK(parameter_count(*named(name)) == count);
}

TEST_CASE("networks with blocks of several kinds map images to logits and learn", "[models]") {
  const std::string name =
      GENERATE("resnet18d", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny");
  const auto model = named(name);
  CHECK(model->describe() == name);
  const auto logits = model->forward(at::randn({2, 3, 64, 64}));
  REQUIRE(logits.sizes() == at::IntArrayRef{2, 1000});
  model->loss(logits, {.classes = at::arange(2), .other_classes = {}, .other_weight = {}})
      .backward();
  for (const auto& item : model->named_parameters()) {
    INFO(item.key());
    REQUIRE(item.value().grad().defined());
    CHECK(item.value().grad().isfinite().all().item<bool>());
  }
}

TEST_CASE("blocks that keep size and channels are residual blocks", "[models]") {
  const auto count = [](const std::string& name) {
    int64_t blocks = 0;
    const auto model = named(name);
    for (const auto& [path, layer, next, slot] : placed_layers(*model))
      blocks += dynamic_cast<ResidualBlock*>(layer) != nullptr ? 1 : 0;
    return blocks;
  };
  CHECK(count("mobilenet_v3_large") == 10);
  CHECK(count("efficientnet_b0") == 9);
  CHECK(count("convnext_tiny") == 18);
  CHECK(count("resnet18d") == 8);
  CHECK_THROWS_WITH(WideResNet({.depth = 20, .initializers = {}}), Contains("multiple of 6"));
}

TEST_CASE("CIFAR networks map images to logits and learn", "[models]") {
  const std::string name = GENERATE("resnet_9", "resnet_20", "resnet56");
  ResNetCifar model({.model_name = name, .num_classes = 7, .initializers = {"kaiming_normal"}});
  CHECK(model.describe() == name);
  const auto input = at::randn({4, 3, 32, 32});
  const Target target{
      .classes = at::tensor({0L, 1L, 2L, 3L}), .other_classes = {}, .other_weight = {}};
  const auto logits = model.forward(input);
  CHECK(logits.sizes() == at::IntArrayRef{4, 7});
  model.loss(logits, target).backward();
  for (const auto& item : model.named_parameters()) {
    INFO(item.key());
    REQUIRE(item.value().grad().defined());
    CHECK(item.value().grad().abs().sum().item<double>() > 0);
  }
  if (name == "resnet_20") CHECK(parameter_count(model) == 272'279);
}

TEST_CASE("airbench's network has its source's parameters and trains all but two kinds",
          "[models]") {
  Airbench model({});
  CHECK(parameter_count(model) == 1'972'792);
  const auto logits = model.forward(at::randn({4, 3, 32, 32}));
  CHECK(logits.sizes() == at::IntArrayRef{4, 10});
  model.loss(logits, {.classes = at::arange(4), .other_classes = {}, .other_weight = {}})
      .backward();
  for (const auto& item : model.named_parameters()) {
    INFO(item.key());
    const bool norm_weight =
        item.key().find("norm") != std::string::npos && item.key().ends_with("weight");
    CHECK(item.value().requires_grad() == !norm_weight);
    CHECK(item.value().grad().defined() == !norm_weight);
  }
  CHECK(model.named_parameters()["whiten.bias"].abs().max().item<double>() == 0);

  Airbench small({.widths = {8}, .whitening_bias = false, .unit_head = true, .num_classes = 3});
  CHECK(small.forward(at::randn({2, 3, 17, 20})).sizes() == at::IntArrayRef{2, 3});
  CHECK(small.named_parameters()["head.weight"].std().item<double>() == Approx(1));
  CHECK(small.named_parameters().find("whiten.bias") == nullptr);
}

TEST_CASE("a group of three convolutions adds the first one's output before its last activation",
          "[models]") {
  const auto activation = GENERATE(std::string("gelu"), std::string("silu"));
  Airbench model({.widths = {8}, .group_convs = 3, .activation = activation, .norm_momentum = 0.1});
  model.eval();
  const at::NoGradGuard no_grad;
  const auto act = [&](const at::Tensor& x) {
    return activation == "gelu" ? at::gelu(x) : x * x.sigmoid();
  };
  const auto parameters = model.named_parameters();
  const auto convolved = [&](const at::Tensor& x, const std::string& name) {
    return at::conv2d(x, parameters["layer1." + name + ".weight"], {}, 1, 1);
  };
  // In evaluation fresh norms, of mean 0 and variance 1, change nothing.
  const auto input = at::randn({2, 3, 17, 17});
  const auto white = at::gelu(at::conv2d(input, parameters["whiten.weight"]));
  const auto first = act(at::max_pool2d(convolved(white, "conv1"), 2));
  const auto second = act(convolved(first, "conv2"));
  const auto last = act(convolved(second, "conv3") + first);
  const auto expected = at::linear(last.amax({2, 3}), parameters["head.weight"]) / 9;
  CHECK(at::allclose(model.forward(input), expected, 1e-4, 1e-5));

  model.train();
  model.forward(input);
  const auto batch_mean = at::max_pool2d(convolved(white, "conv1"), 2).mean({0, 2, 3});
  CHECK(at::allclose(model.named_buffers()["layer1.norm1.running_mean"], 0.1 * batch_mean, 1e-4,
                     1e-6));
}

TEST_CASE("airbench's network says which activation it has", "[models]") {
  Airbench gelu({.widths = {8}}), silu({.widths = {8}, .activation = "silu"});
  CHECK(differences(outline(gelu), outline(silu)) ==
        std::vector<std::string>{"layer1: nothing there, ConvGroup: SiLU here"});
}

TEST_CASE("airbench's network takes colour images that its pools leave something of", "[models]") {
  Airbench model({});
  CHECK(model.forward(at::randn({2, 3, 9, 9})).sizes() == at::IntArrayRef{2, 10});
  CHECK_THROWS_AS(model.forward(at::randn({2, 3, 8, 32})), UserError);
  CHECK_THROWS_AS(model.forward(at::randn({2, 1, 28, 28})), UserError);
}

TEST_CASE("the MNIST classifier maps images to logits", "[models]") {
  MnistClassifier model({.initializers = {"linear_log_constant_bias"}});
  CHECK(model.forward(at::rand({2, 1, 28, 28})).sizes() == at::IntArrayRef{2, 10});
  CHECK(model.named_parameters()["fc2.bias"][0].item<double>() == Approx(-std::log(10)));
}

TEST_CASE("channels-last images and weights stay so through every layer", "[models]") {
  ResNetCifar model({.model_name = "resnet_9", .initializers = {}});
  for (auto& parameter : model.parameters())
    if (parameter.dim() == 4)
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  auto x = at::randn({2, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
  for (const auto& slot : model.slots()) {
    x = slot(x);
    INFO(slot.name());
    if (x.dim() == 4) CHECK(x.is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST_CASE("ResNet trains with the loss its recipe names", "[models]") {
  const auto logits = at::zeros({2, 4});
  const Target target{.classes = at::tensor({0L, 1L}), .other_classes = {}, .other_weight = {}};
  ResNet soft({.model_name = "resnet18", .num_classes = 4, .initializers = {}});
  ResNet binary({.model_name = "resnet18",
                 .num_classes = 4,
                 .initializers = {},
                 .loss_name = "binary_cross_entropy_with_logits"});
  CHECK(soft.loss(logits, target).item<double>() == Approx(std::log(4)));
  CHECK(binary.loss(logits, target).item<double>() == Approx(4 * std::log(2)));
}

TEST_CASE("ResNeXt is a ResNet with groups", "[models]") {
  const ResNet model(
      {.model_name = "resnet50", .initializers = {}, .groups = 32, .width_per_group = 4});
  CHECK(parameter_count(model) == 25'028'904);
  CHECK_THROWS_WITH(ResNet({.model_name = "resnet18", .initializers = {}, .groups = 2}),
                    Contains("groups"));
  CHECK_THROWS_WITH(ResNet({.initializers = {}, .pretrained = true}), Contains("load_path"));
}

TEST_CASE("ResNet with group norm has the same parameters, and no statistics", "[models]") {
  const auto group_norm = [](const std::string& model_name, int64_t width_per_group) {
    return ResNet({.model_name = model_name,
                   .num_classes = 4,
                   .initializers = {},
                   .width_per_group = width_per_group,
                   .norm = "group_norm"});
  };
  const ResNet batch({.model_name = "resnet18", .num_classes = 4, .initializers = {}});
  auto group = group_norm("resnet18", 64);
  CHECK(group.named_parameters().keys() == batch.named_parameters().keys());
  CHECK(parameter_count(group) == parameter_count(batch));
  CHECK(group.buffers().empty());
  const Target target{.classes = at::tensor({1L, 2L}), .other_classes = {}, .other_weight = {}};
  group.loss(group.forward(at::randn({2, 3, 32, 32})), target, Over::batch).backward();
  for (const auto& parameter : group.parameters())
    CHECK(parameter.grad().abs().sum().item<double>() > 0);
  CHECK_THROWS_WITH(group_norm("resnet50", 4), Contains("multiple of 32"));
}

TEST_CASE("the networks for small images have group norm under the same names", "[models]") {
  for (const auto* name : {"resnet_9", "resnet_20"}) {
    const auto make = [&](const std::string& norm) {
      return ResNetCifar({.model_name = name, .initializers = {}, .norm = norm});
    };
    const auto batch = make("batch_norm");
    auto group = make("group_norm");
    CHECK(group.named_parameters().keys() == batch.named_parameters().keys());
    CHECK(parameter_count(group) == parameter_count(batch));
    CHECK(group.buffers().empty());
    const auto both = group.forward(at::randn({2, 3, 32, 32}));
    CHECK(both.sizes() == at::IntArrayRef{2, 10});
  }
  ResNetCifar narrow({.model_name = "resnet_20", .initializers = {}, .norm = "group_norm"});
  std::map<std::string, std::string> layers;
  for (const auto& [path, layer, next, slot] : placed_layers(narrow))
    layers[path] = layer->describe();
  CHECK(layers.at("bn1") == "GroupNorm(8, 16)");
  CHECK(layers.at("layer3.0.bn1") == "GroupNorm(32, 64)");
}

TEST_CASE("every network's source is registered without a line elsewhere", "[models]") {
  namespace fs = std::filesystem;
  std::vector<std::string> declared;
  for (const auto& entry : fs::directory_iterator(
           fs::path(test::from_environment("COMPOSER_TEST_SOURCE", SOURCE_DIR)) / "models")) {
    if (entry.path().extension() != ".cpp") continue;
    const auto name = entry.path().stem().string();
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (text.find("\nNetworkDeclaration " + name + "_network()") != std::string::npos)
      declared.push_back(name);
  }
  std::ranges::sort(declared);
  REQUIRE(declared.size() >= 9);
  Registry registry;
  add_builtin_models(registry);
  CHECK(registry.models.names() == declared);
  for (const auto& name : declared) {
    INFO(name);
    CHECK(std::ranges::find(named_models(), name, &NamedModel::name) != named_models().end());
  }
}

TEST_CASE("every layer of every network sits in a slot", "[models]") {
  Registry registry;
  add_builtin_models(registry);
  for (const auto& name : registry.models.names()) {
    INFO(name);
    const auto model = registry.models.make(name)->build();
    std::set<std::string> visited;
    replace_layers(*model, [&](const std::string& path, Layer&) {
      visited.insert(path);
      return std::shared_ptr<Layer>();
    });
    std::set<std::string> all;
    for (const auto& item : model->named_modules(/*name_prefix=*/"", /*include_self=*/false))
      all.insert(item.key());
    CHECK(visited == all);
  }
}

TEST_CASE("initializers are applied in order, to every layer of their kind", "[initializers]") {
  ResNet model({.model_name = "resnet18", .num_classes = 10, .initializers = {}});
  apply_initializers(model, {"kaiming_normal", "bn_uniform", "linear_log_constant_bias"});
  const auto tensors = model_tensors(model);
  const auto& conv = tensors.at("layer4.1.conv2.weight");
  CHECK(conv.std().item<double>() == Approx(std::sqrt(2.0 / (512 * 9))).epsilon(0.01));
  const auto& scale = tensors.at("layer4.0.downsample.1.weight");
  CHECK(scale.min().item<double>() >= 0);
  CHECK(scale.max().item<double>() < 1);
  CHECK(scale.mean().item<double>() == Approx(0.5).epsilon(0.15));
  CHECK(tensors.at("fc.bias")[3].item<double>() == Approx(-std::log(10)));

  apply_initializers(model, {"xavier_uniform", "bn_uniform", "bn_ones"});
  CHECK(at::equal(tensors.at("bn1.weight"), at::ones({64})));
  const double xavier = std::sqrt(6.0 / (512 * 9 * 2));
  CHECK(conv.abs().max().item<double>() == Approx(xavier).epsilon(0.01));
  CHECK(tensors.at("fc.weight").abs().max().item<double>() ==
        Approx(std::sqrt(6.0 / 522)).epsilon(0.01));

  apply_initializers(model, {"kaiming_uniform"});
  CHECK(conv.abs().max().item<double>() == Approx(std::sqrt(6.0 / (512 * 9))).epsilon(0.01));
  CHECK(conv.requires_grad());
  CHECK_THROWS_WITH(apply_initializers(model, {"kaiming"}), Contains("kaiming_normal"));
}

TEST_CASE("weights of another number of classes are refused with a hint", "[models]") {
  const ResNetCifar source({.model_name = "resnet_20", .num_classes = 100, .initializers = {}});
  ResNetCifar target({.model_name = "resnet_20", .initializers = {}});
  CHECK_THROWS_WITH(assign_weights(target, model_tensors(source), "w"),
                    Contains("num_classes 100"));
}

/// How often it was called with a residual or an activation.
class Counting : public BatchNorm2d {
 public:
  explicit Counting(const BatchNorm2d& original, std::map<std::string, int>& calls)
      : BatchNorm2d(original), calls_(calls) {}

  using BatchNorm2d::forward;
  at::Tensor forward(const at::Tensor& input, const at::Tensor& residual,
                     Activation activation) override {
    const std::array names{"none", "relu", "gelu"};
    ++calls_[(residual.defined() ? "residual " : "") +
             std::string(names[static_cast<size_t>(activation)])];
    return BatchNorm2d::forward(input, residual, activation);
  }

 private:
  std::map<std::string, int>& calls_;
};

TEST_CASE("each block gives its norms what follows them", "[models]") {
  using Calls = std::map<std::string, int>;
  const auto check = [](Model&& model, const Calls& expected, int64_t size = 32) {
    Calls calls;
    replace_layers(model, [&](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
      const auto* norm = dynamic_cast<BatchNorm2d*>(&layer);
      return norm == nullptr ? nullptr : std::make_shared<Counting>(*norm, calls);
    });
    for (const auto& slot : model.slots()) CHECK(slot.layer()->describe() != "ReLU");
    model.forward(at::randn({2, 3, size, size}));
    CHECK(calls == expected);
  };
  check(ResNet({.model_name = "resnet18", .num_classes = 3, .initializers = {}}),
        {{"relu", 9}, {"residual relu", 8}, {"none", 3}}, 64);
  check(ResNet({.model_name = "resnet50", .num_classes = 3, .initializers = {}}),
        {{"relu", 33}, {"residual relu", 16}, {"none", 4}}, 64);
  check(ResNetCifar({.model_name = "resnet_20", .initializers = {}}),
        {{"relu", 10}, {"residual relu", 9}, {"none", 2}});
  check(ResNetCifar({.model_name = "resnet_9", .initializers = {}}),
        {{"relu", 6}, {"residual relu", 2}});
  check(Airbench({.widths = {8, 8, 8}}), {{"gelu", 6}});
}

/// Notes the size of what it gets.
class Watching : public AdaptiveAvgPool2d {
 public:
  at::Tensor forward(const at::Tensor& input) override {
    seen = input.sizes().vec();
    return AdaptiveAvgPool2d::forward(input);
  }
  std::vector<int64_t> seen;
};

TEST_CASE("stride() is the distance between places of the last feature map", "[models]") {
  const auto check = [](Model& model, const char* pool) {
    const auto watching = std::make_shared<Watching>();
    auto& slots = model.slots();
    std::ranges::find(slots, pool, &Slot::name)->set(watching);
    model.eval();
    const at::NoGradGuard no_grad;
    // Without padding a map may lack one place.
    model.forward(at::zeros({1, 3, 4 * model.stride(), 8 * model.stride()}));
    CHECK((watching->seen[2] == 4 || watching->seen[2] == 3));
    CHECK(watching->seen[3] == watching->seen[2] + 4);
  };
  ResNet resnet({.model_name = "resnet18", .num_classes = 3, .initializers = {}});
  check(resnet, "avgpool");
  for (const char* name : {"resnet_9", "resnet9", "resnet_20"}) {
    ResNetCifar cifar({.model_name = name, .initializers = {}});
    check(cifar, "avgpool");
  }
  Airbench airbench({.widths = {8, 8}});
  check(airbench, "pool");
}

}  // namespace
}  // namespace composer::models_test
