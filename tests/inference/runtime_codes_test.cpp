// Quantized networks against their plain simulation and PyTorch's quantized operators.
#include <ATen/native/quantized/PackedParams.h>

#include <catch2/catch.hpp>

#include "base/error.h"
#include "inference/onednn.h"
#include "inference/pooling.h"
#include "inference/quantization/codes.h"
#include "inference/runtime.h"
#include "nn/network/normalize.h"
#include "quantized.h"

using Catch::Matchers::Contains;

namespace composer::runtime_codes_test {
namespace {

struct LayerCase {
  std::string name;
  Conv2dOptions options;
  int64_t size = 9;
  bool relu = true, adds = false, codes_out = true;
  double mean = 0;  ///< of the input, in standard deviations: moves its zero point
};

std::vector<LayerCase> layer_cases() {
  return {
      {"pointwise", {.in_channels = 32, .out_channels = 48, .kernel = {1, 1}}},
      {"3 x 3, padded",
       {.in_channels = 16, .out_channels = 24, .kernel = {3, 3}, .padding = {1, 1}}},
      {"strided, of negative numbers too",
       {.in_channels = 3,
        .out_channels = 16,
        .kernel = {7, 7},
        .stride = {2, 2},
        .padding = {3, 3}},
       21,
       false},
      {"groups",
       {.in_channels = 16, .out_channels = 16, .kernel = {3, 3}, .padding = {1, 1}, .groups = 4}},
      {"depthwise, dilated, without bias",
       {.in_channels = 16,
        .out_channels = 16,
        .kernel = {3, 3},
        .padding = {2, 2},
        .dilation = {2, 2},
        .groups = 16,
        .bias = false},
       9,
       true,
       false,
       true,
       1},
      {"with a sum",
       {.in_channels = 32, .out_channels = 32, .kernel = {3, 3}, .padding = {1, 1}},
       9,
       true,
       true},
      {"with a sum, negative numbers too",
       {.in_channels = 32, .out_channels = 32, .kernel = {1, 1}},
       9,
       false,
       true},
      {"to numbers",
       {.in_channels = 16, .out_channels = 8, .kernel = {3, 3}},
       9,
       true,
       false,
       false},
      {"with a sum, to numbers",
       {.in_channels = 16, .out_channels = 16, .kernel = {1, 1}},
       9,
       true,
       true,
       false}};
}

/// The convolution with what follows it; a sum's other side comes from the input by a sigmoid.
class LayerNet : public Model {
 public:
  explicit LayerNet(const LayerCase& given)
      : conv_(add<Conv2d>("conv", given.options)), given_(given) {
    eval();
  }
  at::Tensor forward(const at::Tensor& input) override {
    auto y = conv_(input);
    if (given_.adds) y = op::add(y, op::sigmoid(input));
    return given_.relu ? op::relu(y) : y;
  }
  int64_t num_classes() const override { return 1; }

 private:
  Slot& conv_;
  LayerCase given_;
};

struct QuantizedLayer {
  TrainedNetwork network;
  at::Tensor images;
};

QuantizedLayer quantized_layer(const LayerCase& given, int64_t bits) {
  at::manual_seed(5);
  LayerNet net(given);
  const int64_t size = given.size, channels = given.options.in_channels;
  const auto images = at::randn({2, channels, size, size}) + given.mean;
  TrainedNetwork network;
  network.graph = record(net, images.slice(0, 0, 1));
  const std::vector<double> mean(static_cast<size_t>(channels), 127), std(mean.size(), 60);
  network.preparation = {.channels = channels, .size = {size, size}, .normalization = {mean, std}};
  network = test::quantized(network, images, bits);
  if (given.codes_out)
    network.quantization.activations[network.graph.output] =
        test::affine_of(test::simulated(network, images), bits);
  return {network, images};
}

TEST_CASE("a layer with codes is its simulation, within a code", "[inference][runtime]") {
  for (const int64_t bits : {8, 7})
    for (const auto& given : layer_cases()) {
      if (bits > activation_bits_here()) continue;  // sums of products would overflow
      CAPTURE(given.name, bits);
      const auto [network, images] = quantized_layer(given, bits);
      const auto found = Runtime(network).logits(images);
      const auto expected = test::simulated(network, images);
      REQUIRE(found.sizes() == expected.sizes());
      const auto distance = (found - expected).abs();
      if (!given.codes_out) {
        CHECK(test::relative(found, expected) < 1e-5);
        continue;
      }
      const double scale = network.quantization.activations.at(network.graph.output).scale;
      CHECK(distance.max().item<double>() < 1.01 * scale);
      CHECK(distance.gt(0.5 * scale).to(at::kFloat).mean().item<double>() < 0.01);
    }
}

/// What PyTorch's operator for codes gives; engine: that of the x86 wheel.
at::Tensor by_pytorch(const TrainedNetwork& network, const LayerCase& given,
                      const at::Tensor& images) {
  const auto& graph = network.graph;
  const auto& operation = graph.operations[0];
  const auto& quantization = network.quantization;
  const auto& weight = graph.values[*operation.inputs[1]].constant;
  const auto scales = quantization.weight_scales.at(*operation.inputs[1]);
  const auto quantized_weight = at::_make_per_channel_quantized_tensor(
      weight, scales.to(at::kDouble), at::zeros_like(scales, at::kLong), 0);
  const auto input = quantization.activations.at(graph.input);
  const auto output = quantization.activations.at(graph.output);
  using Packed = c10::intrusive_ptr<ConvPackedParamsBase<2>>;
  using Pair = c10::List<int64_t>;
  const auto pair = [](const auto& values) { return Pair({values[0], values[1]}); };
  const auto& options = given.options;
  std::optional<at::Tensor> bias;
  if (operation.inputs.size() > 2) bias = graph.values[*operation.inputs[2]].constant;
  const auto packed =
      find_operator<Packed(at::Tensor, std::optional<at::Tensor>, Pair, Pair, Pair, int64_t)>(
          "quantized::conv2d_prepack")
          .call(quantized_weight, bias, pair(options.stride), pair(options.padding),
                pair(options.dilation), options.groups);
  const auto codes = at::quantize_per_tensor(images, input.scale, input.zero_point, at::kQUInt8);
  const auto made = given.relu ? packed->apply_relu(codes, output.scale, output.zero_point)
                               : packed->apply(codes, output.scale, output.zero_point);
  return made.dequantize();
}

TEST_CASE("a layer with codes is PyTorch's quantized operator, within a code",
          "[inference][runtime]") {
  for (const auto& given : layer_cases()) {
    if (given.adds || !given.codes_out) continue;  // PyTorch's operator has no such
    CAPTURE(given.name);
    // Codes of 7 bits: products do not overflow in any engine.
    const auto [network, images] = quantized_layer(given, 7);
    const auto output = network.quantization.activations.at(network.graph.output);
    const auto expected =
        by_pytorch(network, given, images)
            .clamp_max(output.scale * static_cast<double>(127 - output.zero_point));
    CHECK((Runtime(network).logits(images) - expected).abs().max().item<double>() <
          1.01 * output.scale);
  }
}

TEST_CASE("a quantized network runs near its simulation", "[inference][runtime]") {
  for (const int64_t bits : {8, 7})
    for (const auto& given : test::network_cases()) {
      if (bits > activation_bits_here()) continue;  // sums of products would overflow
      CAPTURE(given.name, bits);
      const auto model = test::settled(given);
      const auto images = test::random_images(given, 4);
      const auto network = test::quantized(test::trained(given, *model), images, bits);
      const Runtime runtime(network);
      const auto expected = test::simulated(network, images);
      CHECK(test::relative(runtime.logits(images), expected) < 0.08);
      const auto one = images.slice(0, 1, 2);
      CHECK(test::relative(runtime.logits(one), test::simulated(network, one)) < 0.08);
    }
}

TEST_CASE("bytes become codes as numbers do", "[inference][runtime]") {
  const auto given = test::network_cases()[3];
  const auto model = test::settled(given);
  const auto trained = test::trained(given, *model);
  const auto bytes = at::randint(256, {3, 32, 32, 3}, at::kByte);
  const auto& normalization = trained.preparation.normalization;
  const auto numbers = normalize(bytes, normalization, at::MemoryFormat::ChannelsLast);
  for (const int64_t bits : {8, 7}) {
    const auto network = test::quantized(trained, numbers, bits);
    const Runtime runtime(network);
    CHECK(runtime.logits(bytes).equal(runtime.logits(numbers)));
    const auto affine = network.quantization.activations.at(network.graph.input);
    CHECK(looked_up(bytes, pixel_codes(normalization, affine, bits))
              .equal(codes_of(numbers, affine, bits)));
  }
}

TEST_CASE("the largest codes of windows are those of the largest numbers", "[inference][runtime]") {
  const Affine affine{0.02, 100};
  const int64_t channels = GENERATE(5, 64, 200);
  const auto numbers = at::randn({2, channels, 11, 13}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto codes = codes_of(numbers, affine, 8);
  for (const auto& options :
       {Pool2dOptions{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
        Pool2dOptions{.kernel = {2, 3}, .stride = {2, 1}},
        Pool2dOptions{.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 0}, .dilation = {2, 3}}}) {
    const auto expected = op::max_pool2d(numbers_of(codes, affine), options);
    const auto found = largest_of_windows(codes, options);
    REQUIRE(found.sizes() == expected.sizes());
    CHECK(numbers_of(found, affine).equal(expected));
    CHECK(largest_of_windows(numbers, options).equal(op::max_pool2d(numbers, options)));
  }
}

TEST_CASE("a window beside the image has nothing", "[inference][runtime]") {
  const Pool2dOptions options{
      .kernel = {2, 2}, .stride = {1, 1}, .padding = {2, 2}, .dilation = {3, 3}};
  const auto numbers = at::randn({1, 3, 1, 1});
  const auto found = largest_of_windows(numbers, options);
  CHECK(found.sizes() == at::IntArrayRef({1, 3, 2, 2}));
  CHECK(found.isneginf().sum().item<int64_t>() > 0);
  CHECK(largest_of_windows(numbers.to(at::kByte), options).sizes() == found.sizes());
}

TEST_CASE("a window with a NaN has it as its largest number", "[inference][runtime]") {
  auto numbers = at::randn({1, 70, 4, 4});
  numbers[0][3][1][2] = std::nan("");
  const auto found = largest_of_windows(numbers, {.kernel = {2, 2}, .stride = {2, 2}});
  CHECK(found.isnan().sum().item<int64_t>() == 1);
  CHECK(found[0][3][0][1].isnan().item<bool>());
}

TEST_CASE("the mean of codes is that of their numbers", "[inference][runtime]") {
  const Affine affine{0.02, 100};
  const auto codes = codes_of(at::randn({3, 70, 7, 5}), affine, 8);
  const auto expected = numbers_of(codes, affine).to(at::kDouble).mean({2, 3});
  CHECK(at::allclose(mean_of_pixels(codes, affine).to(at::kDouble), expected, 1e-6, 1e-7));
  const auto numbers = numbers_of(codes, affine);
  CHECK(at::allclose(mean_of_pixels(numbers).to(at::kDouble), expected, 1e-5, 1e-6));
}

TEST_CASE("what a quantized network cannot do is said", "[inference][runtime]") {
  const auto given = test::network_cases()[3];
  const auto images = test::random_images(given, 1);
  auto network = test::quantized(test::trained(given, *test::settled(given)), images);
  CHECK_THROWS_WITH(Runtime(network, RunPrecision::bf16), Contains("quantized"));
  network.quantization.activations.erase(network.graph.input);
  CHECK_THROWS_WITH(Runtime(network), Contains("conv1") && Contains("its input has none"));
}

}  // namespace
}  // namespace composer::runtime_codes_test
