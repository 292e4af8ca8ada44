#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/version.h"
#include "inference/fold.h"
#include "inference/graph/graph_json.h"
#include "inference/onnx/onnx_file.h"
#include "networks.h"
#include "onnx_interpreter.h"
#include "tests/temporary_folder.h"

namespace composer::onnx_test {
namespace {

using Catch::Matchers::Contains;
using Shape = std::vector<int64_t>;

using test::Formula;
using test::network_of;

test::OnnxModel written(const TrainedNetwork& network, const OnnxOptions& options = {}) {
  const TemporaryFolder folder;
  write_onnx(folder / "net.onnx", network, options);
  return test::read_onnx(folder / "net.onnx");
}

std::vector<std::string> text(const Shape& shape) {
  std::vector<std::string> words{"N"};
  for (size_t i = 1; i < shape.size(); ++i) words.push_back(std::to_string(shape[i]));
  return words;
}

std::vector<std::string> kinds(const test::OnnxModel& model) {
  std::vector<std::string> all;
  for (const auto& node : model.nodes) all.push_back(node.kind);
  return all;
}

void check_facts(const test::OnnxModel& file, const TrainedNetwork& network) {
  CHECK(file.ir_version == 8);
  CHECK(file.operator_set == 17);
  CHECK(file.producer == "composer");
  CHECK(file.producer_version == version);
  CHECK(file.graph_name == "network");
  const auto description = nlohmann::json::parse(file.metadata.at("network.json"));
  CHECK(description.at("class_names") == network.class_names);
  CHECK(description.at("preparation").at("height") == network.preparation.size.height);
  REQUIRE(file.inputs.size() == 1);
  CHECK(file.inputs[0].name == "images");
  CHECK(file.inputs[0].type == 1);
  CHECK(file.inputs[0].shape == text(network.graph.values[network.graph.input].shape));
  REQUIRE(file.outputs.size() == 1);
  CHECK(file.outputs[0].name == "logits");
  CHECK(file.outputs[0].type == 1);
  CHECK(file.outputs[0].shape == text({1, network.classes()}));
  for (const auto& node : file.nodes) CHECK(node.name == node.outputs[0]);
}

void check_weights(const test::OnnxModel& file, const Graph& graph) {
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].constant.defined())
      CHECK(at::equal(file.initializers.at(constant_name(graph, i)), graph.values[i].constant));
}

TEST_CASE("an ONNX file computes the network for any number of images, with the folded weights",
          "[inference][onnx]") {
  for (const auto& given : test::network_cases()) {
    CAPTURE(given.name);
    const auto model = test::settled(given);
    const auto network = test::trained(given, *model);
    const auto file = written(network);
    check_facts(file, network);
    check_weights(file, folded(network.graph));
    const at::NoGradGuard no_grad;
    for (const int64_t count : {1, 3}) {
      const auto images = test::random_images(given, count);
      CHECK(test::relative(test::interpreted(file, images), model->forward(images)) < 1e-5);
    }
  }
}

TEST_CASE("with preprocessing, an ONNX file takes bytes of images", "[inference][onnx]") {
  for (const size_t index : {3, 5}) {
    const auto given = test::network_cases()[index];
    CAPTURE(given.name);
    const auto model = test::settled(given);
    auto network = test::trained(given, *model);
    auto& [mean, std] = network.preparation.normalization;
    for (size_t c = 0; c < mean.size(); ++c)
      mean[c] += 10 * static_cast<double>(c), std[c] -= 7 * static_cast<double>(c);
    const auto file = written(network, {.preprocessing = Preprocessing::normalize});
    const auto bytes =
        at::randint(0, 256, {3, given.image[1], given.image[2], given.image[0]}, at::kByte);
    const auto of_channels = [](const auto& v) { return at::tensor(v, at::kFloat); };
    const auto images = ((bytes - of_channels(mean)) / of_channels(std)).permute({0, 3, 1, 2});
    const at::NoGradGuard no_grad;
    CHECK(test::relative(test::interpreted(file, bytes), model->forward(images)) < 1e-5);
    CHECK(file.inputs[0].type == 2);
    CHECK(file.inputs[0].shape == text(bytes.sizes().vec()));
  }
}

TEST_CASE("behind a max pool GELU and SiLU are no operation that runtimes know",
          "[inference][onnx]") {
  const auto numbers = at::randn({2, 3, 8, 8}) - 2;
  for (const auto activation : {op::gelu, op::silu}) {
    const auto behind = [&](const at::Tensor& x) {
      return op::flatten(activation(op::max_pool2d(x, {.kernel = {2, 2}, .stride = {2, 2}})));
    };
    const auto file = written(network_of(behind, numbers));
    CHECK(test::relative(test::interpreted(file, numbers), behind(numbers)) < 1e-6);
    const auto found = kinds(file);
    const std::vector<std::string> gate{"Mul", "Add", "Mul", "Flatten"};
    CHECK(std::equal(gate.rbegin(), gate.rend(), found.rbegin()));
    CHECK(std::ranges::count(found, "Sigmoid") == 0);
  }
}

TEST_CASE("a residual network is the operators that runtimes know", "[inference][onnx]") {
  const auto given = test::network_cases()[3];
  const auto file = written(test::trained(given, *test::settled(given)));
  std::vector<std::string> expected{"Conv", "Relu"};
  const auto block = [&](bool projected) {
    for (const char* kind : {"Conv", "Relu", "Conv"}) expected.emplace_back(kind);
    if (projected) expected.emplace_back("Conv");
    for (const char* kind : {"Add", "Relu"}) expected.emplace_back(kind);
  };
  for (int i = 0; i < 9; ++i) block(i == 3 || i == 6);
  for (const char* kind : {"GlobalAveragePool", "Flatten", "Gemm"}) expected.emplace_back(kind);
  CHECK(kinds(file) == expected);
  CHECK(file.nodes[0].inputs == std::vector<std::string>{"images", "conv1.weight", "conv1.bias"});
  const auto strided = std::ranges::find_if(file.nodes, [](const auto& node) {
    return node.kind == "Conv" && node.integers.at("strides") == Shape{2, 2};
  });
  REQUIRE(strided != file.nodes.end());
  CHECK(strided->name == "layer2.0.conv1.conv2d");
  CHECK(strided->integers == std::map<std::string, Shape>{{"dilations", {1, 1}},
                                                          {"group", {1}},
                                                          {"kernel_shape", {3, 3}},
                                                          {"pads", {1, 1, 1, 1}},
                                                          {"strides", {2, 2}}});
}

TEST_CASE("windows of pools are PyTorch's, to the last one", "[inference][onnx]") {
  for (const bool ceil_mode : {false, true})
    for (const int64_t size : {7, 8, 9, 10})
      for (const int64_t padding : {0, 1})
        for (const int64_t stride : {1, 2, 3}) {
          CAPTURE(ceil_mode, size, padding, stride);
          const Pool2dOptions pool{.kernel = {3, 2},
                                   .stride = {stride, 3},
                                   .padding = {padding, padding},
                                   .dilation = {1, 1},
                                   .ceil_mode = ceil_mode};
          const auto images = at::randn({2, 3, size, size + 1});
          const auto check = [&](const auto& function) {
            const auto file = written(network_of(function, images.slice(0, 0, 1)));
            const auto expected = function(images);
            CHECK(at::allclose(test::interpreted(file, images), expected, 1e-5, 1e-6));
          };
          check([&](const at::Tensor& x) { return op::flatten(op::avg_pool2d(x, pool)); });
          check([&](const at::Tensor& x) { return op::flatten(op::max_pool2d(x, pool)); });
          auto wide = pool;
          wide.dilation = {2, 3};
          check([&](const at::Tensor& x) { return op::flatten(op::max_pool2d(x, wide)); });
        }
}

TEST_CASE("every operation that folding leaves has its form in ONNX", "[inference][onnx]") {
  const auto weight = at::rand({6}) + 0.5, bias = at::randn({6});
  const auto wide_weight = at::rand({72}) + 0.5, wide_bias = at::randn({72});
  const auto matrix = at::randn({5, 72});
  const auto addend = at::randn({1, 6, 1, 1});
  const std::map<std::string, Formula::Function> formulas{
      {"adaptive pool",
       [](const at::Tensor& x) {
         return op::flatten(op::adaptive_avg_pool2d(x, {.size = {2, 3}}));
       }},
      {"batch norm without weights",
       [=](const at::Tensor& x) {
         return op::flatten(op::batch_norm(x, {}, {}, bias, weight, {.eps = 1e-3}));
       }},
      {"batch norm",
       [=](const at::Tensor& x) {
         return op::flatten(op::batch_norm(x, weight, bias, bias, weight, {.eps = 1e-3}));
       }},
      {"concatenation",
       [](const at::Tensor& x) {
         return op::mean(op::cat({op::relu(x), x, op::sigmoid(x)}));
       }},
      {"constant factor", [](const at::Tensor& x) { return op::mean(op::scale(x, -0.3)); }},
      {"constant addend", [=](const at::Tensor& x) { return op::mean(op::add(x, addend)); }},
      {"gelu", [](const at::Tensor& x) { return op::flatten(op::gelu(x)); }},
      {"group norm without weights",
       [](const at::Tensor& x) {
         return op::flatten(op::group_norm(x, {}, {}, {.groups = 3, .eps = 1e-2}));
       }},
      {"group norm",
       [=](const at::Tensor& x) {
         return op::flatten(op::group_norm(x, weight, bias, {.groups = 2, .eps = 1e-2}));
       }},
      {"layer norm without weights",
       [](const at::Tensor& x) {
         return op::layer_norm(op::flatten(x), {}, {}, {.features = 72, .eps = 1e-2});
       }},
      {"layer norm",
       [=](const at::Tensor& x) {
         return op::layer_norm(op::flatten(x), wide_weight, wide_bias,
                               {.features = 72, .eps = 1e-2});
       }},
      {"linear", [=](const at::Tensor& x) { return op::linear(op::flatten(x), matrix); }},
      {"gate",
       [](const at::Tensor& x) {
         return op::flatten(op::multiply(x, op::unsqueeze(op::sigmoid(op::mean(x)))));
       }},
  };
  const auto images = at::randn({3, 6, 4, 3});
  for (const auto& [name, formula] : formulas) {
    CAPTURE(name);
    const auto file = written(network_of(formula, images.slice(0, 0, 1)));
    CHECK(test::relative(test::interpreted(file, images), formula(images)) < 1e-5);
  }
}

TEST_CASE("what an ONNX file cannot hold is named", "[inference][onnx]") {
  const auto image = at::randn({1, 3, 7, 6});
  const auto uneven = [](const at::Tensor& x) {
    return op::flatten(op::adaptive_avg_pool2d(x, {.size = {2, 3}}));
  };
  CHECK_THROWS_WITH(written(network_of(uneven, image)),
                    Contains("layer ''") && Contains("adaptive_avg_pool2d from 7 x 6 to 2 x 3"));
  auto network = network_of([](const at::Tensor& x) { return op::mean(x); }, image);
  network.graph.operations[0].layer = "layer1.pool";
  network.graph.operations[0].kind = OperationKind::standardize_weight;
  CHECK_THROWS_WITH(written(network), Contains("layer 'layer1.pool': standardize_weight"));
  const auto constant = at::ones({1, 4});
  CHECK_THROWS_WITH(
      written(network_of([&](const at::Tensor&) { return op::relu(constant); }, image)),
      Contains("does not depend on its images"));
}

TEST_CASE("a network of more than 2 GB is refused before it is written", "[inference][onnx]") {
  // One number, told to be a matrix of them.
  const auto matrix = at::ones({1, 1}).expand({30'000, 20'000});
  TrainedNetwork network;
  auto& values = network.graph.values;
  values.resize(3);
  values[0].shape = {1, 20'000};
  values[1].shape = {30'000, 20'000}, values[1].constant = matrix, values[1].name = "fc.weight";
  values[2].shape = {1, 30'000}, values[2].producer = 0;
  network.graph.operations = {
      {.kind = OperationKind::linear, .layer = "fc", .options = {}, .inputs = {0, 1}, .output = 2}};
  network.graph.input = 0, network.graph.output = 2;
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(write_onnx(folder / "net.onnx", network),
                    Contains("net.onnx") && Contains("larger than 2 GB"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace composer::onnx_test
