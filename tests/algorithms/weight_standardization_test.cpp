#include "algorithms/weight_standardization.h"

#include <catch2/catch.hpp>

#include "algorithms/blurpool.h"
#include "algorithms/squeeze_excite.h"
#include "base/error.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::weight_standardization_test {

using test::Fixture;
using test::TinyModel;

namespace {

std::vector<std::string> paths(const std::vector<Replacement>& replacements) {
  std::vector<std::string> all;
  for (const auto& replacement : replacements) all.push_back(replacement.path);
  return all;
}

}  // namespace

TEST_CASE("standardize_weight gives filters mean 0 and variance 1", "[weight_standardization]") {
  const auto weight = at::tensor({1.f, 2.f, 3.f, 4.f, 7.f, 7.f, 7.f, 7.f}).view({2, 1, 2, 2});
  const float one = 1 / std::sqrt(1.25f);
  const auto expected =
      at::tensor({-1.5f * one, -0.5f * one, 0.5f * one, 1.5f * one, 0.f, 0.f, 0.f, 0.f});
  CHECK(at::allclose(standardize_weight(weight).flatten(), expected));
}

TEST_CASE("StandardizedConv2d computes and differentiates with the standardised weight",
          "[weight_standardization]") {
  const auto conv = std::make_shared<Conv2d>(
      Conv2dOptions{.in_channels = 3, .out_channels = 4, .kernel = {3, 3}, .stride = {2, 2}});
  const auto images = at::randn({2, 3, 9, 9});
  const auto weight = conv->weight.detach().to(at::kDouble).requires_grad_();
  const auto mean = weight.mean({1, 2, 3}, true);
  const auto standard = (weight - mean) / ((weight - mean).square().mean({1, 2, 3}, true)).sqrt();
  const auto expected =
      at::conv2d(images.to(at::kDouble), standard, conv->bias.to(at::kDouble), {2, 2});
  expected.square().sum().backward();

  StandardizedConv2d standardized(conv);
  const auto output = standardized.forward(images);
  output.square().sum().backward();
  CHECK(at::allclose(output.to(at::kDouble), expected, 1e-4, 1e-5));
  CHECK(at::allclose(conv->weight.grad().to(at::kDouble), weight.grad(), 1e-3, 1e-3));
  CHECK(conv->weight.is_same(standardized.weight));
}

TEST_CASE("apply_weight_standardization keeps parameters and their names",
          "[weight_standardization]") {
  TinyModel model;
  const auto before = model.named_parameters();
  const auto replaced = apply_weight_standardization(model);
  CHECK(paths(replaced) == std::vector<std::string>{"conv1", "conv2", "conv3"});
  CHECK(replaced[2].after == "StandardizedConv2d: Conv2d(24, 24, 1x1, stride 2)");
  const auto after = model.named_parameters();
  CHECK(after.keys() == before.keys());
  for (const auto& parameter : before) CHECK(after[parameter.key()].is_same(parameter.value()));

  at::NoGradGuard no_grad;
  const auto images = at::randn({2, 3, 32, 32});
  const auto outputs = model.forward(images);
  after["conv2.weight"].mul_(3);
  CHECK(at::allclose(model.forward(images), outputs, 1e-4, 1e-5));
}

TEST_CASE("weight_standardization ignores the last layers asked for", "[weight_standardization]") {
  TinyModel model, other;
  CHECK(paths(apply_weight_standardization(model, 2)) == std::vector<std::string>{"conv1"});
  CHECK_THROWS_WITH(apply_weight_standardization(other, 3),
                    Catch::Contains("n_last_layers_ignore"));
  Sequential single({std::make_shared<Conv2d>(
      Conv2dOptions{.in_channels = 4, .out_channels = 4, .kernel = {1, 1}, .groups = 4})});
  CHECK_THROWS_AS(apply_weight_standardization(single), UserError);
}

TEST_CASE("weight_standardization standardises convolutions that blurpool put in place",
          "[weight_standardization]") {
  Fixture f;
  const double plain = f.loss();
  apply_blurpool(*f.state.model, {});
  const double blurred = f.loss();
  WeightStandardization standardization({});
  standardization.init(f.state);
  CHECK(f.loss() != Approx(blurred));
  CHECK(f.loss() != Approx(plain));
  CHECK(f.logged("weight_standardization/num_weights_standardized") == 3);
  CHECK(standardization.report()[1] ==
        "conv2: BlurConv2d: blur, then Conv2d(16, 24, 3x3, stride 2) -> StandardizedConv2d: "
        "BlurConv2d: blur, then Conv2d(16, 24, 3x3, stride 2)");
}

TEST_CASE("gates and standardised weights are the same in either order",
          "[weight_standardization]") {
  const auto outputs = [](bool gates_first) {
    Fixture f;
    const auto gate = [&] { apply_squeeze_excite(*f.state.model, {.min_channels = 24}, 1); };
    if (gates_first) gate();
    const auto replaced = apply_weight_standardization(*f.state.model);
    if (!gates_first) gate();
    CHECK(paths(replaced) == std::vector<std::string>{"conv1", "conv2", "conv3"});
    CHECK(f.state.model->named_parameters().contains("conv3.squeeze"));
    CHECK_THROWS_AS(apply_weight_standardization(*f.state.model), UserError);
    return f.state.model->forward(f.state.batch.input);
  };
  CHECK(at::equal(outputs(true), outputs(false)));
}

}  // namespace composer::weight_standardization_test
