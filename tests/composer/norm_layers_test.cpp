#include "composer/network/norm_layers.h"

#include <catch2/catch.hpp>

#include "composer/error.h"
#include "composer/optimization/precision.h"

using namespace composer;

namespace {

/// (x - mean) / sqrt(variance + 1e-5) over the last dimension.
at::Tensor normalized(const at::Tensor& rows) {
  const auto mean = rows.mean(-1, true);
  const auto variance = (rows - mean).square().mean(-1, true);
  return (rows - mean) / (variance + 1e-5).sqrt();
}

void fill(const at::Tensor& parameter, double first) {
  const at::NoGradGuard no_grad;
  parameter.copy_(at::arange(parameter.numel(), at::kFloat) * 0.1 + first);
}

}  // namespace

TEST_CASE("LayerNorm normalises the last dimension", "[norm_layers]") {
  at::manual_seed(1);
  LayerNorm norm(6);
  const auto input = at::randn({2, 3, 6}) * 3 + 1;
  CHECK(at::allclose(norm.forward(input), normalized(input), 1e-4, 1e-5));
  fill(norm.weight, 0.5), fill(norm.bias, -1);
  CHECK(at::allclose(norm.forward(input), normalized(input) * norm.weight + norm.bias, 1e-4, 1e-5));
  CHECK(norm.describe() == "LayerNorm(6)");
}

TEST_CASE("GroupNorm normalises groups of channels of each sample", "[norm_layers]") {
  at::manual_seed(2);
  GroupNorm norm(2, 6);
  fill(norm.weight, 0.5), fill(norm.bias, -1);
  const auto input = at::randn({3, 6, 4, 5}) * 3 + 1;
  const auto expected =
      normalized(input.reshape({3, 2, -1})).view({3, 6, 4, 5}) * norm.weight.view({6, 1, 1}) +
      norm.bias.view({6, 1, 1});
  CHECK(at::allclose(norm.forward(input), expected, 1e-4, 1e-5));
  const auto last = norm.forward(input.contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(at::allclose(last, expected, 1e-4, 1e-5));
  CHECK(norm.describe() == "GroupNorm(2, 6)");
}

TEST_CASE("norms have PyTorch's parameter names and initial values", "[norm_layers]") {
  GroupNorm group(2, 6);
  LayerNorm layer(6);
  for (torch::nn::Module* norm :
       {static_cast<torch::nn::Module*>(&group), static_cast<torch::nn::Module*>(&layer)}) {
    const auto parameters = norm->named_parameters();
    CHECK(parameters.keys() == std::vector<std::string>{"weight", "bias"});
    CHECK(at::equal(parameters["weight"].detach(), at::ones({6})));
    CHECK(at::equal(parameters["bias"].detach(), at::zeros({6})));
    CHECK(norm->buffers().empty());
  }
}

TEST_CASE("under autocast norms compute in float32", "[norm_layers]") {
  GroupNorm group(2, 6);
  LayerNorm layer(4);
  const auto input = at::randn({2, 6, 4, 4}).to(at::kBFloat16);
  const Autocast autocast(Precision::amp_bf16, at::kCPU);
  for (Layer* norm : {static_cast<Layer*>(&group), static_cast<Layer*>(&layer)}) {
    const auto output = norm->forward(input);
    CHECK(output.scalar_type() == at::kFloat);
    CHECK(at::equal(output, norm->forward(input.to(at::kFloat))));
  }
}

TEST_CASE("channels that do not make groups are refused", "[norm_layers]") {
  CHECK_THROWS_AS(GroupNorm(4, 6), UserError);
  CHECK_THROWS_AS(GroupNorm(0, 6), UserError);
}
