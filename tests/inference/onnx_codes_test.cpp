#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "inference/network_folder.h"
#include "inference/onnx/onnx_file.h"
#include "onnx_interpreter.h"
#include "range_codes.h"
#include "tests/temporary_folder.h"

namespace composer::onnx_codes_test {
namespace {

using Catch::Matchers::Contains;

struct Coded {
  explicit Coded(size_t index)
      : given(test::network_cases()[index]),
        network(test::with_codes(test::trained(given, *test::settled(given)),
                                 test::random_images(given, 4))) {}

  test::OnnxModel file() const {
    const TemporaryFolder folder;
    write_onnx(folder / "net.onnx", network);
    return test::read_onnx(folder / "net.onnx");
  }

  test::NetworkCase given;
  TrainedNetwork network;
};

/// What makes the tensor, where it is no initializer.
const test::OnnxNode* maker(const test::OnnxModel& file, const std::string& name) {
  for (const auto& node : file.nodes)
    if (node.outputs[0] == name) return &node;
  return nullptr;
}

std::vector<const test::OnnxNode*> readers(const test::OnnxModel& file, const std::string& name) {
  std::vector<const test::OnnxNode*> all;
  for (const auto& node : file.nodes)
    if (std::ranges::count(node.inputs, name) > 0) all.push_back(&node);
  return all;
}

TEST_CASE("an ONNX file of codes computes what the codes say", "[inference][onnx]") {
  for (const size_t index : {0, 3, 5}) {
    const Coded coded(index);
    CAPTURE(coded.given.name);
    const auto images = test::random_images(coded.given, 3);
    const auto expected = test::computed_by_codes(coded.network, images);
    // A convolution that does a sum is rounded on its way to it here.
    const double most = coded.given.name == "mnist_classifier" ? 5e-3 : 5e-2;
    CHECK(test::relative(test::interpreted(coded.file(), images), expected) < most);
  }
}

TEST_CASE("weights, activations and biases have the codes that runtimes look for",
          "[inference][onnx]") {
  const Coded coded(3);
  const auto file = coded.file();
  const auto& graph = coded.network.graph;
  const auto& quantization = coded.network.quantization;
  int convolutions = 0;
  for (const auto& operation : graph.operations) {
    if (operation.kind != OperationKind::conv2d) continue;
    ++convolutions;
    const auto* conv = maker(file, operation.layer + ".conv2d");
    if (conv->kind != "Conv") conv = maker(file, operation.layer + ".conv2d.exact");
    REQUIRE(conv != nullptr);
    CAPTURE(conv->name);
    const auto* input = maker(file, conv->inputs[0]);
    const auto* weight = maker(file, conv->inputs[1]);
    const auto* bias = maker(file, conv->inputs[2]);
    REQUIRE((input != nullptr && weight != nullptr && bias != nullptr));
    for (const auto* node : {input, weight, bias}) CHECK(node->kind == "DequantizeLinear");
    CHECK(maker(file, input->inputs[0])->kind == "QuantizeLinear");
    const auto number = [&](const std::string& name) { return file.initializers.at(name); };
    const auto& given = graph.values[*operation.inputs[1]];
    const auto scales = quantization.weight_scales.at(*operation.inputs[1]);
    CHECK(at::equal(number(weight->inputs[0]), given.constant));
    CHECK(number(weight->inputs[0]).scalar_type() == at::kChar);
    CHECK(at::equal(number(weight->inputs[1]), scales));
    CHECK(at::equal(number(weight->inputs[2]), at::zeros_like(scales, at::kChar)));
    CHECK(weight->integers.at("axis") == std::vector<int64_t>{0});
    const double in = quantization.activations.at(*operation.inputs[0]).scale;
    CHECK(number(input->inputs[1]).item<float>() == static_cast<float>(in));
    CHECK(number(input->inputs[2]).scalar_type() == at::kByte);
    CHECK(number(bias->inputs[0]).scalar_type() == at::kInt);
    CHECK(at::allclose(number(bias->inputs[1]), scales * in, 1e-6, 0));
    const auto step = number(bias->inputs[1]);
    const auto off = number(bias->inputs[0]) * step - graph.values[*operation.inputs[2]].constant;
    CHECK((off.abs() / step).max().item<double>() < 0.51);
  }
  CHECK(convolutions == 21);
  for (const auto& node : file.nodes) {
    CAPTURE(node.name);
    if (node.kind == "Conv" || node.kind == "Add") {  // or through a relu, which codes do
      auto next = readers(file, node.outputs[0]);
      REQUIRE(next.size() == 1);
      if (next[0]->kind == "Relu") next = readers(file, next[0]->outputs[0]);
      REQUIRE(next.size() == 1);
      CHECK(next[0]->kind == "QuantizeLinear");
    }
    if (node.kind != "Add") continue;
    for (const auto& input : node.inputs) CHECK(maker(file, input)->kind == "DequantizeLinear");
  }
}

TEST_CASE("codes of an addend lose nothing that the sum's keep", "[inference][onnx]") {
  std::mt19937 numbers(3);
  std::uniform_real_distribution<double> up_to_one(0, 1);
  for (int trial = 0; trial < 200; ++trial) {
    const bool rectified = trial % 2 == 0;
    const Affine sum{.scale = 0.001 + up_to_one(numbers),
                     .zero_point = rectified ? 0 : std::lround(255 * up_to_one(numbers))};
    const Affine other{.scale = 0.001 + up_to_one(numbers),
                       .zero_point = std::lround(255 * up_to_one(numbers))};
    Graph graph;
    graph.values.resize(6);
    graph.operations = {
        {.kind = OperationKind::conv2d, .layer = "a", .options = {}, .inputs = {0, 1}, .output = 2},
        {.kind = OperationKind::add, .layer = "", .options = {}, .inputs = {2, 3}, .output = 4},
        {.kind = OperationKind::relu, .layer = "", .options = {}, .inputs = {4}, .output = 5}};
    graph.output = 5;
    Quantization quantization;
    quantization.weight_scales[1] = at::ones({1});
    quantization.activations = {{0, {}}, {3, other}, {5, sum}};
    const auto codes = codes_by_value(graph, quantization).at(2);
    const auto x = (at::rand({400}, at::kDouble) - 0.5) * 2000;
    const auto y = test::rounded((at::rand({400}, at::kDouble) - 0.5) * 600, other);
    const auto exact = test::rounded(at::relu(x + y), sum);
    const auto got = test::rounded(at::relu(test::rounded(x, codes) + y), sum);
    CAPTURE(trial, sum.scale, other.scale, codes.scale);
    CHECK((exact - got).abs().max().item<double>() <= codes.scale + sum.scale * 1.001);
  }
}

TEST_CASE("a bias too large for its channel's scale makes the weights coarser, not itself wrong",
          "[inference][onnx]") {
  Coded coded(5);
  auto& graph = coded.network.graph;
  auto& first = graph.operations[0];
  coded.network.quantization.weight_scales.at(*first.inputs[1])[2] = 1e-12;
  auto& bias = graph.values[*first.inputs.at(2)].constant;
  bias = bias.clone();
  bias[2] = 1.5;
  const auto images = test::random_images(coded.given, 3);
  const auto expected = test::computed_by_codes(coded.network, images);
  CHECK(test::relative(test::interpreted(coded.file(), images), expected) < 5e-3);
}

TEST_CASE("weights with codes need an input with codes", "[inference][onnx]") {
  Coded coded(5);
  coded.network.quantization.activations.erase(coded.network.graph.input);
  CHECK_THROWS_AS(coded.file(), UserError);
  CHECK_THROWS_WITH(coded.file(), Contains("its weight has codes, but not its input"));
}

TEST_CASE("a folder of codes and what was in memory make the same ONNX file", "[inference][onnx]") {
  const Coded coded(3);
  const TemporaryFolder folder;
  write_network(folder / "net", coded.network);
  write_onnx(folder / "a.onnx", coded.network);
  write_onnx(folder / "b.onnx", read_network(folder / "net"));
  const auto images = test::random_images(coded.given, 2);
  CHECK(at::equal(test::interpreted(test::read_onnx(folder / "a.onnx"), images),
                  test::interpreted(test::read_onnx(folder / "b.onnx"), images)));
}

}  // namespace
}  // namespace composer::onnx_codes_test
