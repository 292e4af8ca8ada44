// What quantization_aware trains on beside what quantize makes of the network.
#include "algorithms/quantization_aware.h"

#include <catch2/catch.hpp>

#include "inference/fold.h"
#include "inference/quantization/codes.h"
#include "inference/quantization/points.h"
#include "inference/quantization/simulate.h"
#include "networks.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::quantization_aware_test {
namespace {

/// What the graph computes with codes in all layers that can have them, over the ranges of these
/// images.
at::Tensor computed_by_codes(Graph graph, const at::Tensor& images) {
  const auto operations = codable_operations(graph);
  for (const size_t operation : operations) {
    auto& weight = graph.values[*graph.operations[operation].inputs[1]].constant;
    const auto scales = scales_of(weight);
    weight = numbers_of(codes_of(weight, scales), scales);
  }
  const auto coded = coded_values(graph, {operations.begin(), operations.end()});
  std::map<size_t, Affine> ranges;
  return pass(graph, images, [&](size_t value, at::Tensor& tensor) {
    const auto found = coded.find(value);
    if (found == coded.end()) return;
    if (found->second == value)
      ranges[value] = codes_over(tensor.min().item<float>(), tensor.max().item<float>(), 8);
    tensor = rounded_to_codes(tensor, ranges.at(found->second), 8);
  });
}

}  // namespace

TEST_CASE("training rounds where quantize has codes, to the same numbers",
          "[inference][quantization][quantization_aware]") {
  at::manual_seed(5);
  const at::NoGradGuard no_grad;
  for (const bool blur_first : {true, false}) {
    CAPTURE(blur_first);
    test::TinyModel model;
    apply_blurpool(model, {.blur_first = blur_first});
    apply_squeeze_excite(model, {.latent_channels = 4, .min_channels = 16}, 1);
    const auto rounding = std::make_shared<Rounding>();
    apply_quantization_aware(model, rounding);
    const auto images = at::randn({4, 3, 32, 32});
    auto graph = folded(record(model, images.narrow(0, 0, 1)));
    CHECK(codable_operations(graph).size() == 11);  // 4 layers, 4 of gates, 3 filters
    const auto expected = computed_by_codes(graph, images);
    const auto plain = model.forward(images);
    rounding->on = true;
    const auto trained = model.forward(images);
    CHECK(test::relative(trained, expected) < 1e-5);
    CHECK(test::relative(plain, expected) > 1e-3);
  }
}

}  // namespace composer::quantization_aware_test
