
#include <catch2/catch.hpp>
#include <functional>

#include "base/error.h"
#include "nn/network/fused_norm.h"
#include "nn/network/layers.h"
#include "nn/network/precision.h"

namespace composer::norm_layers_test {

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

/// A Block with one norm.
class Normed : public Block {
 public:
  explicit Normed(std::shared_ptr<Layer> norm) : norm_(add("norm", std::move(norm))) {}
  at::Tensor forward(const at::Tensor& input) override { return norm_(input); }
  Slot& norm() { return norm_; }

 private:
  Slot& norm_;
};

at::Tensor activated(const at::Tensor& input, Activation activation) {
  if (activation == Activation::relu) return input.relu();
  return activation == Activation::gelu ? at::gelu(input) : input;
}

/// The output and all gradients of norm(input, residual, activation), fused or from its parts.
std::vector<at::Tensor> results(const std::function<std::shared_ptr<Layer>()>& make, bool fused,
                                bool training, const at::Tensor& given, const at::Tensor& other,
                                Activation activation) {
  Normed block(make());
  block.train(training);
  fill(block.parameters()[0], 0.5), fill(block.parameters()[1], -0.2);
  const auto input = given.detach().clone().requires_grad_(true);
  const auto residual =
      other.defined() ? other.detach().clone().requires_grad_(true) : at::Tensor();
  at::Tensor output;
  if (fused) {
    output = block.norm()(input, residual, activation);
  } else {
    const auto sum = block.norm()(input);
    output = activated(residual.defined() ? sum + residual : sum, activation);
  }
  at::manual_seed(5);
  output.backward(at::randn(output.sizes()).to(output.scalar_type()));
  std::vector<at::Tensor> all{output.detach(), input.grad()};
  if (residual.defined()) all.push_back(residual.grad());
  for (const auto& parameter : block.parameters()) all.push_back(parameter.grad());
  for (const auto& buffer : block.buffers()) all.push_back(buffer);
  return all;
}

}  // namespace

TEST_CASE("a norm with what follows it, step by step, is bit for bit its parts", "[norm_layers]") {
  const Unfused unfused;
  const bool training = GENERATE(true, false), with_residual = GENERATE(true, false);
  const auto activation = GENERATE(Activation::none, Activation::relu, Activation::gelu);
  const auto format = GENERATE(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast);
  const auto precision = GENERATE(Precision::fp32, Precision::amp_bf16);
  const std::vector<std::function<std::shared_ptr<Layer>()>> norms{
      [] { return std::make_shared<BatchNorm2d>(6); },
      [] { return std::make_shared<GroupNorm>(2, 6); },
      [] { return std::make_shared<LayerNorm>(5); }};
  const auto norm = norms[GENERATE(0U, 1U, 2U)];
  at::manual_seed(4);
  const auto type = precision == Precision::fp32 ? at::kFloat : at::kBFloat16;
  const auto input = at::randn({3, 6, 4, 5}).to(type).contiguous(format);
  const auto residual =
      with_residual ? at::randn({3, 6, 4, 5}).to(type).contiguous(format) : at::Tensor();
  const Autocast autocast(precision, at::kCPU);
  const auto fused = results(norm, true, training, input, residual, activation);
  const auto parts = results(norm, false, training, input, residual, activation);
  REQUIRE(fused.size() == parts.size());
  for (size_t i = 0; i < fused.size(); ++i) {
    CAPTURE(i, training, with_residual, format);
    CHECK(at::equal(fused[i], parts[i]));
    CHECK(fused[i].strides() == parts[i].strides());
  }
}

TEST_CASE("a layer in a norm's place is followed by the rest, its output left alone",
          "[norm_layers]") {
  Normed block(std::make_shared<BatchNorm2d>(2));
  block.norm().set(std::make_shared<ReLU>());
  auto input = at::randn({2, 2, 3, 3}).requires_grad_(true);
  const auto residual = at::randn({2, 2, 3, 3});
  const auto before = residual.clone();
  const auto output = block.norm()(input, residual, Activation::relu);
  CHECK(at::equal(output, (input.relu() + residual).relu()));
  CHECK(at::equal(block.norm()(input, {}, Activation::gelu), at::gelu(input.relu())));
  CHECK_NOTHROW(output.sum().backward());  // ReLU's gradient needs its output
  CHECK(at::equal(residual, before));
}

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

TEST_CASE("the first trained layer may be a group norm of channels-last images", "[norm_layers]") {
  at::manual_seed(5);
  const auto images = at::randn({3, 8, 5, 4});
  const auto gradients = [&](const at::Tensor& input) {
    GroupNorm norm(4, 8);
    norm.forward(input).square().sum().backward();
    return at::cat({norm.weight.grad(), norm.bias.grad()});
  };
  CHECK(at::allclose(gradients(images.contiguous(at::MemoryFormat::ChannelsLast)),
                     gradients(images)));
}

}  // namespace composer::norm_layers_test
