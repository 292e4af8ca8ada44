#include "nn/network/graph.h"

#include <catch2/catch.hpp>

#include "models/airbench.h"
#include "models/convnext.h"
#include "models/efficientnet.h"
#include "models/mnist_classifier.h"
#include "models/mobilenet_v3.h"
#include "models/resnet.h"
#include "models/resnet_cifar.h"
#include "nn/network/fused_norm.h"
#include "tests/composer/replayed.h"

namespace composer::graph_test {
namespace {

using Kinds = std::map<std::string, int>;

/// Each operation computed by LibTorch gives what the network does.
Graph checked(Model& model, const at::Tensor& input) {
  model.eval();
  auto graph = record(model, input);
  const at::NoGradGuard no_grad;
  const Unfused unfused;  // as a graph's operations are
  CHECK(at::equal(test::replayed(graph, input), model.forward(input)));
  std::map<std::string, int> names;
  for (const auto& value : graph.values)
    if (!value.name.empty()) ++names[value.name];
  for (const auto& parameter : model.named_parameters()) CHECK(names[parameter.key()] == 1);
  return graph;
}

/// The operations of `kind` in `layer`.
std::vector<size_t> find(const Graph& graph, OperationKind kind, const std::string& layer) {
  std::vector<size_t> found;
  for (size_t i = 0; i < graph.operations.size(); ++i)
    if (graph.operations[i].kind == kind && graph.operations[i].layer == layer) found.push_back(i);
  return found;
}

TEST_CASE("the picture of ResNet-18 has its blocks' edges", "[graph]") {
  ResNet model({.model_name = "resnet18", .num_classes = 3, .initializers = {}});
  const auto graph = checked(model, at::randn({2, 3, 64, 64}));
  CHECK(test::kinds(graph) == Kinds{{"conv2d", 20},
                                    {"batch_norm", 20},
                                    {"relu", 17},
                                    {"add", 8},
                                    {"max_pool2d", 1},
                                    {"adaptive_avg_pool2d", 1},
                                    {"flatten", 1},
                                    {"linear", 1}});
  const auto lines = test::lines(graph);
  CHECK(std::vector(lines.begin() + 4, lines.begin() + 11) ==
        std::vector<std::string>{"conv2d layer1.0.conv1 layer1.0.conv1.weight",
                                 "batch_norm layer1.0.bn1 layer1.0.bn1.weight layer1.0.bn1.bias "
                                 "layer1.0.bn1.running_mean layer1.0.bn1.running_var",
                                 "relu layer1.0.bn1", "conv2d layer1.0.conv2 layer1.0.conv2.weight",
                                 "batch_norm layer1.0.bn2 layer1.0.bn2.weight layer1.0.bn2.bias "
                                 "layer1.0.bn2.running_mean layer1.0.bn2.running_var",
                                 "add layer1.0.bn2", "relu layer1.0.bn2"});
  // The first block reads what the pool gives twice.
  const auto pooled = graph.operations[3].output;
  CHECK(graph.readers(pooled) == std::vector<size_t>{4, 9});
  const auto last = find(graph, OperationKind::batch_norm, "layer2.0.bn2"),
             shortcut = find(graph, OperationKind::batch_norm, "layer2.0.downsample.1"),
             sum = find(graph, OperationKind::add, "layer2.0.bn2");
  REQUIRE((last.size() == 1 && shortcut.size() == 1 && sum.size() == 1));
  CHECK(graph.operations[sum[0]].inputs ==
        std::vector<std::optional<size_t>>{graph.operations[last[0]].output,
                                           graph.operations[shortcut[0]].output});
  CHECK(graph.values[graph.output].shape == std::vector<int64_t>{2, 3});
}

TEST_CASE("every network has its picture", "[graph]") {
  at::manual_seed(1);
  ResNet resnet50({.model_name = "resnet50", .num_classes = 3, .initializers = {}});
  CHECK(test::kinds(checked(resnet50, at::randn({1, 3, 64, 64}))) ==
        Kinds{{"conv2d", 53},
              {"batch_norm", 53},
              {"relu", 49},
              {"add", 16},
              {"max_pool2d", 1},
              {"adaptive_avg_pool2d", 1},
              {"flatten", 1},
              {"linear", 1}});
  ResNet group(
      {.model_name = "resnet18", .num_classes = 3, .initializers = {}, .norm = "group_norm"});
  CHECK(test::kinds(checked(group, at::randn({1, 3, 64, 64})))["group_norm"] == 20);
  ResNetCifar resnet20({.model_name = "resnet_20", .initializers = {}});
  CHECK(test::kinds(checked(resnet20, at::randn({2, 3, 32, 32}))) ==
        Kinds{{"conv2d", 21},
              {"batch_norm", 21},
              {"relu", 19},
              {"add", 9},
              {"adaptive_avg_pool2d", 1},
              {"flatten", 1},
              {"linear", 1}});
  ResNetCifar resnet9({.model_name = "resnet_9", .initializers = {}});
  CHECK(test::kinds(checked(resnet9, at::randn({2, 3, 32, 32}))) ==
        Kinds{{"conv2d", 8},
              {"batch_norm", 8},
              {"relu", 8},
              {"add", 2},
              {"max_pool2d", 3},
              {"adaptive_avg_pool2d", 1},
              {"flatten", 1},
              {"linear", 1}});
  ResNet variant_d(
      {.model_name = "resnet18", .num_classes = 3, .initializers = {}, .variant = "d"});
  CHECK(test::kinds(checked(variant_d, at::randn({1, 3, 64, 64})))["avg_pool2d"] == 3);
  MobileNetV3 mobile({.model_name = "mobilenet_v3_small", .num_classes = 3, .initializers = {}});
  CHECK(test::kinds(checked(mobile, at::randn({1, 3, 64, 64}))) ==
        Kinds{{"conv2d", 52},
              {"batch_norm", 34},
              {"relu", 14},
              {"hardswish", 19},
              {"hardsigmoid", 9},
              {"multiply", 9},
              {"add", 6},
              {"adaptive_avg_pool2d", 10},
              {"flatten", 1},
              {"linear", 2}});
  EfficientNet efficient({.num_classes = 3, .initializers = {}});
  CHECK(test::kinds(checked(efficient, at::randn({1, 3, 64, 64}))) ==
        Kinds{{"conv2d", 81},
              {"batch_norm", 49},
              {"silu", 49},
              {"sigmoid", 16},
              {"multiply", 16},
              {"add", 9},
              {"adaptive_avg_pool2d", 17},
              {"flatten", 1},
              {"linear", 1}});
  ConvNeXt convnext({.num_classes = 3, .initializers = {}});
  CHECK(test::kinds(checked(convnext, at::randn({1, 3, 64, 64}))) ==
        Kinds{{"conv2d", 22},
              {"layer_norm", 23},
              {"to_nhwc", 22},
              {"to_nchw", 22},
              {"linear", 37},
              {"gelu", 18},
              {"multiply", 18},
              {"add", 18},
              {"adaptive_avg_pool2d", 1},
              {"flatten", 1}});
  Airbench airbench({});
  CHECK(test::kinds(checked(airbench, at::randn({2, 3, 32, 32}))) == Kinds{{"conv2d", 7},
                                                                           {"batch_norm", 6},
                                                                           {"gelu", 7},
                                                                           {"max_pool2d", 4},
                                                                           {"flatten", 1},
                                                                           {"linear", 1},
                                                                           {"scale", 1}});
  MnistClassifier mnist({});
  CHECK(test::kinds(checked(mnist, at::randn({2, 1, 28, 28}))) == Kinds{{"conv2d", 2},
                                                                        {"batch_norm", 1},
                                                                        {"relu", 3},
                                                                        {"avg_pool2d", 1},
                                                                        {"flatten", 1},
                                                                        {"linear", 2}});
}

}  // namespace
}  // namespace composer::graph_test
