#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/quantized/PackedParams.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "base/error.h"
#include "inference/fold.h"
#include "inference/network_folder.h"
#include "inference/quantization/calibration.h"
#include "inference/quantization/points.h"
#include "networks.h"
#include "tests/temporary_folder.h"

namespace composer::quantization_test {
namespace {

TrainedNetwork folded_network(const test::NetworkCase& given) {
  auto network = test::trained(given, *test::settled(given));
  network.graph = folded(network.graph);
  return network;
}

const test::NetworkCase& network_case(const std::string& name) {
  static const auto all = test::network_cases();
  return *std::ranges::find(all, name, &test::NetworkCase::name);
}

std::vector<at::Tensor> batches(const test::NetworkCase& given) {
  at::manual_seed(3);
  return {test::random_images(given, 8), test::random_images(given, 8)};
}

/// The quantization of a folded graph by calibration.
Quantization calibrated(const Graph& folded, const std::vector<at::Tensor>& images,
                        const std::set<std::string>& kept = {},
                        int64_t activation_bits = activation_bits_here()) {
  TrainedNetwork network;
  network.graph = folded;
  return Calibration(network, images, activation_bits, false).network(kept).quantization;
}

double logits_error(const TrainedNetwork& original, const TrainedNetwork& coded,
                    const std::vector<at::Tensor>& images) {
  const size_t logits = original.graph.output;
  return signal_to_noise(original.graph, Simulation(coded), images, {logits}).at(logits);
}

/// What PyTorch's operator for codes computes of the codes' numbers: [N, C, H, W] -> float32.
at::Tensor by_pytorch(const at::Tensor& input, const Affine& in, const at::Tensor& weight,
                      const at::Tensor& scales, const at::Tensor& bias, const Affine& out,
                      const Conv2dOptions& options, bool relu) {
  const auto list = [](const std::array<int64_t, 2>& pair) {
    return c10::List<int64_t>({pair[0], pair[1]});
  };
  using Packed = c10::intrusive_ptr<ConvPackedParamsBase<2>>;
  const auto pack = c10::Dispatcher::singleton()
                        .findSchemaOrThrow("quantized::conv2d_prepack", "")
                        .typed<Packed(at::Tensor, std::optional<at::Tensor>, c10::List<int64_t>,
                                      c10::List<int64_t>, c10::List<int64_t>, int64_t)>();
  const auto codes = at::_make_per_channel_quantized_tensor(
      weight, scales.to(at::kDouble), at::zeros({scales.size(0)}, at::kLong), 0);
  const auto packed = pack.call(codes, bias, list(options.stride), list(options.padding),
                                list(options.dilation), options.groups);
  const auto given = at::quantize_per_tensor(input, in.scale, in.zero_point, at::kQUInt8);
  return (relu ? packed->apply_relu(given, out.scale, out.zero_point)
               : packed->apply(given, out.scale, out.zero_point))
      .dequantize();
}

}  // namespace

TEST_CASE("codes stand where quantized operations read, and where sums are computed in place",
          "[inference][quantization]") {
  const auto network = folded_network(network_case("resnet18"));
  const auto& graph = network.graph;
  const auto all = codable_operations(graph);
  CHECK(all.size() == 21);
  const auto values = coded_values(graph, {all.begin(), all.end()});
  CHECK(values.contains(graph.input));
  CHECK_FALSE(values.contains(graph.output));
  int sums = 0, pools = 0;
  for (const auto& operation : graph.operations) {
    const size_t input = *operation.inputs[0], output = operation.output;
    if (operation.kind == OperationKind::conv2d || operation.kind == OperationKind::linear)
      CHECK(values.contains(input));
    if (operation.kind == OperationKind::max_pool2d) {
      CHECK(values.at(output) == input);
      CHECK(values.at(input) == input);
      ++pools;
    }
    if (operation.kind == OperationKind::relu) CHECK(values.contains(output));
    if (operation.kind != OperationKind::add) continue;
    CHECK_FALSE(values.contains(output));
    CHECK(values.contains(input) + values.contains(*operation.inputs[1]) == 1);
    ++sums;
  }
  CHECK(sums == 8);
  CHECK(pools == 1);

  const auto some = coded_values(graph, {all[1]});  // layer1.0.conv1
  CHECK(some.size() == 2);                          // its input, and what was pooled for it
}

TEST_CASE("each operation with a weight has a name of its own", "[inference][quantization]") {
  for (const auto& given : test::network_cases()) {
    CAPTURE(given.name);
    const auto graph = folded_network(given).graph;
    const auto layers = codable_layers(graph);
    const auto all = codable_operations(graph);
    CHECK(layers.size() == all.size());
    for (const auto& layer : layers) {
      CAPTURE(layer);
      CHECK(coded_without(graph, {layer}).size() == all.size() - 1);
    }
  }
  const auto gated = codable_layers(folded_network(network_case("squeeze_excite")).graph);
  for (const char* name : {"layer3.0.conv2", "layer3.0.conv2.squeeze", "layer3.0.conv2.excite"})
    CHECK(std::ranges::count(gated, name) == 1);
  const auto blurred = codable_layers(folded_network(network_case("blurpool")).graph);
  for (const char* name : {"maxpool.filter", "layer4.0.conv1", "layer4.0.conv1.filter"})
    CHECK(std::ranges::count(blurred, name) == 1);
}

TEST_CASE("every network computes nearly the same with codes", "[inference][quantization][slow]") {
  for (const auto& given : test::network_cases()) {
    CAPTURE(given.name);
    const TemporaryFolder folder;
    const auto network = folded_network(given);
    const auto images = batches(given);
    const auto coded = quantized(network, calibrated(network.graph, images));
    CHECK_FALSE(coded.quantization.empty());
    CHECK(logits_error(network, coded, images) > 18);
    write_network(folder / "net", coded);
    const auto read = read_network(folder / "net");
    CHECK(at::equal(Simulation(read)(images[0]), Simulation(coded)(images[0])));
  }
}

TEST_CASE("layers that are kept are float32, and 7 bits lose more than 8",
          "[inference][quantization]") {
  const auto& given = network_case("resnet_20");
  const auto network = folded_network(given);
  const auto images = batches(given);
  const auto layers = codable_layers(network.graph);
  const auto part = calibrated(network.graph, images, {layers.begin(), layers.begin() + 10}, 8);
  CHECK(part.weight_scales.size() == layers.size() - 10);
  CHECK_FALSE(part.activations.contains(network.graph.input));
  CHECK(calibrated(network.graph, images, {layers.begin(), layers.end()}).empty());

  const auto eight = quantized(network, calibrated(network.graph, images, {}, 8));
  const auto seven = quantized(network, calibrated(network.graph, images, {}, 7));
  CHECK(logits_error(network, quantized(network, part), images) >
        logits_error(network, eight, images));
  CHECK(logits_error(network, eight, images) > logits_error(network, seven, images));
  const size_t input = network.graph.input;
  CHECK(seven.quantization.activations.at(input).scale ==
        Approx(eight.quantization.activations.at(input).scale * 255 / 127).epsilon(0.05));
}

TEST_CASE("a layer's codes are those of PyTorch's operator", "[inference][quantization][parity]") {
  at::manual_seed(5);
  for (const bool relu : {false, true}) {
    for (const int64_t groups : {1, 4}) {
      const Conv2dOptions options{.in_channels = 16,
                                  .out_channels = 24,
                                  .kernel = {3, 3},
                                  .stride = {2, 1},
                                  .padding = {1, 0},
                                  .groups = groups};
      const Affine in = codes_over(-1, 3, 7), out = codes_over(relu ? 0 : -2, 2, 7);
      const auto input = rounded_to_codes(at::randn({2, 16, 9, 9}), in, 7);
      const auto weight = at::randn({24, 16 / groups, 3, 3}) * 0.1, bias = at::randn({24});
      const auto scales = scales_of(weight), codes = codes_of(weight, scales);
      auto ours = op::conv2d(input, numbers_of(codes, scales), bias, options);
      if (relu) ours = ours.relu();
      // PyTorch's reach to 255.
      const auto rounded = rounded_to_codes(ours, out, 8);
      const auto theirs = by_pytorch(input, in, codes, scales, bias, out, options, relu);
      const auto steps = ((rounded - theirs) / out.scale).round().abs();
      CHECK(steps.max().item<double>() <= 1);
      CHECK(steps.count_nonzero().item<int64_t>() * 500 <= steps.numel());
    }
  }
}

TEST_CASE("corrected biases give each channel its mean back", "[inference][quantization]") {
  for (const auto* const name : {"resnet_20", "factorize"}) {
    CAPTURE(name);
    const auto& given = network_case(name);
    const auto network = folded_network(given);
    const auto images = at::cat(batches(given));
    // Few codes for large numbers: what is cut off is missed on average.
    auto quantization = calibrated(network.graph, {images}, {}, 7);
    for (auto& [value, codes] : quantization.activations)
      if (value != network.graph.input) codes.scale *= 0.5;
    auto corrected = network;
    corrected.graph = bias_corrected(network.graph, quantization, images);
    const auto logits = test::computed(network.graph, images);
    const auto shift = [&](const TrainedNetwork& of) {
      return (Simulation(quantized(of, quantization))(images) - logits).mean(0).abs().max();
    };
    // A number beside a border between codes may fall on its other side.
    CHECK(shift(corrected).item<double>() < 0.1 * shift(network).item<double>());
  }
}

TEST_CASE("the layers whose codes cost most come first, the ends are kept where that pays",
          "[inference][quantization]") {
  const auto& given = network_case("resnet_20");
  auto network = folded_network(given);
  const auto layers = codable_layers(network.graph);
  // A weight that is large and of no use, where the others need codes.
  const auto operations = codable_operations(network.graph);
  auto& weight = network.graph.values[*network.graph.operations[operations[0]].inputs[1]].constant;
  weight = weight.clone();
  weight.select(1, 0).mul_(100);
  auto images = batches(given);
  for (auto& batch : images) batch.select(1, 0).zero_();
  const Calibration calibration(network, images, 8, false);
  CHECK(calibration.by_sensitivity().front() == layers.front());
  const auto ends = calibration.ends_worth_keeping({});
  REQUIRE(ends.size() == 1);
  CHECK(ends.at(layers.front()) > 3);
  CHECK(calibration.ends_worth_keeping({layers.front()}).empty());

  const auto coded = calibration.network({layers.front()});
  const auto errors = calibration.errors(coded);
  CHECK(errors.size() == operations.size() - 1);  // the logits are the last layer's
  CHECK(errors.at(network.graph.output) == calibration.logits_error({layers.front()}));
}

TEST_CASE("the fewest that are enough are found", "[inference][quantization]") {
  for (size_t most = 0; most < 20; ++most) {
    CHECK_FALSE(fewest_enough(most, [](size_t) { return false; }));
    for (size_t needed = 0; needed <= most; ++needed) {
      CAPTURE(most, needed);
      CHECK(fewest_enough(most, [&](size_t count) {
              CHECK(count <= most);
              return count >= needed;
            }) == needed);
    }
  }
}

TEST_CASE("layers that are kept for others' sake are let go", "[inference][quantization]") {
  using Names = std::set<std::string>;
  const auto order = [] { return std::vector<std::string>{"a", "b", "c", "d", "e", "f"}; };
  for (const auto& needed : {Names{}, Names{"a"}, Names{"b", "e"}, Names{"f"}, Names{"a", "b"}}) {
    std::set<Names> asked;
    Names last;
    const auto found = fewest_kept(order, [&](const Names& kept) {
      CHECK(asked.insert(kept).second);
      const bool enough = std::ranges::includes(kept, needed);
      if (enough) last = kept;
      return enough;
    });
    REQUIRE(found);
    CHECK(Names(found->begin(), found->end()) == needed);
    CHECK(last == needed);
  }
  CHECK_FALSE(fewest_kept(order, [](const Names&) { return false; }));
  CHECK_FALSE(
      fewest_kept([] { return std::vector<std::string>(); }, [](const Names&) { return false; }));
}

TEST_CASE("errors of layers are summed up without holding a whole pass",
          "[inference][quantization]") {
  const auto& given = network_case("resnet_20");
  const auto network = folded_network(given);
  const auto images = batches(given);
  const Simulation simulation(quantized(network, calibrated(network.graph, images)));
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> seen;
  size_t most_alive = 0;
  std::map<size_t, double> distances;
  side_by_side(network.graph, simulation, images[0],
               [&](size_t value, const at::Tensor& exact, const at::Tensor& simulated) {
                 CHECK(exact.sizes() == simulated.sizes());
                 distances[value] = (exact - simulated).square().sum().item<double>();
                 seen.emplace_back(exact.getIntrusivePtr());
                 seen.emplace_back(simulated.getIntrusivePtr());
                 most_alive = std::max(most_alive,
                                       static_cast<size_t>(std::ranges::count_if(
                                           seen, [](const auto& one) { return !one.expired(); })));
               });
  CHECK(distances.size() == network.graph.operations.size() + 1);
  CHECK(distances.at(network.graph.input) == 0);
  CHECK(distances.at(network.graph.output) > 0);
  CHECK(most_alive <= 8);
}

TEST_CASE("values that are no numbers are named at calibration", "[inference][quantization]") {
  const auto& given = network_case("resnet_20");
  const auto network = folded_network(given);
  const auto images = test::random_images(given, 2).fill_(NAN);
  CHECK_THROWS_WITH(calibrated(network.graph, {images}),
                    Catch::Matchers::Contains("the network's input"));
}

}  // namespace composer::quantization_test
