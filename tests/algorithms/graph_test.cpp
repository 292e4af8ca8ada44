// The picture of a network after surgery.
#include "nn/network/graph.h"

#include <catch2/catch.hpp>

#include "algorithms/blurpool.h"
#include "algorithms/factorize.h"
#include "algorithms/ghost_batchnorm.h"
#include "algorithms/low_precision_norm.h"
#include "algorithms/no_op_model.h"
#include "algorithms/squeeze_excite.h"
#include "algorithms/stochastic_depth.h"
#include "algorithms/weight_standardization.h"
#include "algorithms/whitening.h"
#include "models/airbench.h"
#include "models/resnet.h"
#include "models/resnet_cifar.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/composer/replayed.h"

namespace composer::graph_test {
namespace {

using Kinds = std::map<std::string, int>;

std::shared_ptr<Model> resnet20() {
  at::manual_seed(2);
  return std::make_shared<ResNetCifar>(
      ResNetCifar::Params{.model_name = "resnet_20", .initializers = {"kaiming_normal"}});
}

/// Replaying the picture gives what the network does, in both memory formats.
Graph checked(Model& model, const at::Tensor& input) {
  model.train();
  const auto graph = record(model, input);
  CHECK(model.is_training());
  model.eval();
  const at::NoGradGuard no_grad;
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto images = input.contiguous(format);
    const auto expected = model.forward(images);
    // Of large outputs small ones have the rounding.
    const double rounding = 1e-4 * std::max(1.0, expected.abs().max().item<double>());
    CHECK(at::allclose(test::replayed(graph, images), expected, 1e-4, rounding));
    CHECK(at::allclose(test::replayed(record(model, images), images), expected, 1e-4, rounding));
  }
  std::map<std::string, int> names;
  for (const auto& value : graph.values)
    if (!value.name.empty()) ++names[value.name];
  for (const auto& parameter : model.named_parameters()) {
    INFO(parameter.key());
    CHECK(names[parameter.key()] == 1);
  }
  return graph;
}

Graph checked(Model& model) { return checked(model, at::randn({2, 3, 32, 32})); }

/// What `surgery` adds to the operations of resnet_20, and takes from them.
Kinds change(const std::function<void(Block&)>& surgery) {
  const auto model = resnet20();
  auto before = test::kinds(checked(*model));
  surgery(*model);
  auto after = test::kinds(checked(*model));
  Kinds change;
  for (const auto& [kind, count] : after)
    if (count != before[kind]) change[kind] = count - before[kind];
  for (const auto& [kind, count] : before)
    if (!after.contains(kind)) change[kind] = -count;
  return change;
}

TEST_CASE("blurs are in the picture as depthwise convolutions with a constant filter", "[graph]") {
  CHECK(change([](Block& model) { apply_blurpool(model, {}); }) == Kinds{{"conv2d", 4}});
  CHECK(change([](Block& model) { apply_blurpool(model, {.blur_first = false}); }) ==
        Kinds{{"conv2d", 4}});

  ResNet resnet({.model_name = "resnet18", .num_classes = 3, .initializers = {}});
  apply_blurpool(resnet, {.replace_convs = false});
  const auto graph = checked(resnet, at::randn({2, 3, 64, 64}));
  const auto lines = test::lines(graph);
  REQUIRE(lines[3] == "max_pool2d maxpool");
  REQUIRE(lines[4] == "conv2d maxpool ?");
  const auto& pool = std::get<Pool2dOptions>(graph.operations[3].options);
  CHECK(pool.kernel == std::array<int64_t, 2>{3, 3});
  CHECK(pool.stride == std::array<int64_t, 2>{1, 1});
  const auto& blur = std::get<Conv2dOptions>(graph.operations[4].options);
  CHECK(blur.groups == 64);
  CHECK(blur.stride == std::array<int64_t, 2>{2, 2});
  CHECK(graph.values[*graph.operations[4].inputs[1]].constant.sum().item<double>() == Approx(64));
}

TEST_CASE("what other surgery computes is in the picture", "[graph]") {
  CHECK(change([](Block& model) {
          apply_squeeze_excite(model, {.latent_channels = 4, .min_channels = 64}, 1);
        }) == Kinds{{"mean", 5},
                    {"linear", 10},
                    {"relu", 5},
                    {"sigmoid", 5},
                    {"unsqueeze", 5},
                    {"multiply", 5}});
  CHECK(change([](Block& model) {
          apply_factorization(model, {.min_channels = 64, .min_features = 1000});
        }) == Kinds{{"conv2d", 5}});
  CHECK(change([](Block& model) { apply_stochastic_depth(model, {}, {}); }) == Kinds{{"scale", 9}});
  CHECK(change([](Block& model) { apply_ghost_batchnorm(model, 2); }).empty());
  CHECK(change([](Block& model) { apply_weight_standardization(model); }) ==
        Kinds{{"standardize_weight", 21}});
}

TEST_CASE("all surgery together is in the picture", "[graph]") {
  at::manual_seed(3);
  ResNet resnet({.model_name = "resnet18", .num_classes = 3, .initializers = {}});
  apply_factorization(resnet, {.min_channels = 512, .min_features = 10000});
  apply_blurpool(resnet, {});
  apply_squeeze_excite(resnet, {.latent_channels = 8, .min_channels = 256}, 1);
  apply_stochastic_depth(resnet, {.drop_rate = 0.2}, {});
  apply_ghost_batchnorm(resnet, 2);
  apply_weight_standardization(resnet);
  for (const auto& buffer : resnet.named_buffers())  // standardised weights give large outputs
    if (buffer.key().ends_with("running_var")) buffer.value().fill_(1000);
  const auto kinds = test::kinds(checked(resnet, at::randn({2, 3, 64, 64})));
  CHECK(kinds.at("scale") == 8);
  CHECK(kinds.at("add") == 8);
  CHECK(kinds.at("batch_norm") == 20);
  CHECK(kinds.at("multiply") > 0);
  CHECK(kinds.at("standardize_weight") >= 20);
}

TEST_CASE("norms of low precision are in the picture as they are without autocast", "[graph]") {
  ResNet resnet(
      {.model_name = "resnet18", .num_classes = 3, .initializers = {}, .norm = "group_norm"});
  apply_low_precision_norm(resnet);
  CHECK(test::kinds(checked(resnet, at::randn({2, 3, 64, 64})))["group_norm"] == 20);
}

TEST_CASE("a whitened network and the one number have their pictures", "[graph]") {
  test::Fixture f;
  f.state.model = std::make_shared<Airbench>(Airbench::Params{.widths = {8, 8}});
  Whitening whitening({});
  whitening.init(f.state);
  whitening.after_dataloader(f.state);
  CHECK(test::kinds(checked(*f.state.model))["conv2d"] == 5);

  ScalarModel scalar(7);
  CHECK(test::lines(checked(scalar)) == std::vector<std::string>{"expand  weight"});
}

}  // namespace
}  // namespace composer::graph_test
