#include "algorithms/low_precision_norm.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "composer/checkpoint/weights.h"
#include "models/convnext.h"
#include "models/resnet.h"
#include "models/resnet_cifar.h"
#include "nn/network/precision.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/gpu.h"

namespace composer::low_precision_norm_test {

using Catch::Matchers::Contains;
using test::Fixture;
using test::TinyModel;

namespace {

class TwoNorms : public Block {
 public:
  at::Tensor forward(const at::Tensor& input) override { return last_(group_(input)); }

 private:
  Slot& group_ = add<GroupNorm>("group", 4, 16);
  Slot& last_ = add<LayerNorm>("last", 8);
};

/// With scales and shifts that are not the initial ones.
void stir(torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : module.parameters()) parameter.add_(at::randn_like(parameter), 0.2);
}

double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  return ((actual.to(at::kFloat) - expected).norm() / expected.norm()).item<double>();
}

}  // namespace

TEST_CASE("norms compute in autocast's type, close to float32", "[low_precision_norm][gpu]") {
  const auto precision = GENERATE(Precision::amp_bf16, Precision::amp_fp16);
  const auto low = precision == Precision::amp_bf16 ? at::kBFloat16 : at::kHalf;
  for (const auto device : test::devices()) {
    at::manual_seed(5);
    TwoNorms norms;
    stir(norms);
    norms.to(device);
    const auto input = at::randn({2, 16, 8, 8}).to(device, low).requires_grad_();
    const auto exact = norms.forward(input.detach().to(at::kFloat));
    const auto run = [&] {
      const Autocast autocast(precision, device);
      return norms.forward(input);
    };
    CHECK(run().scalar_type() == at::kFloat);
    apply_low_precision_norm(norms);
    const auto output = run();
    CHECK(output.scalar_type() == low);
    CHECK(relative_error(output, exact) < 0.01);
    output.square().mean().backward();
    for (const auto& parameter : norms.parameters()) {
      CHECK(parameter.grad().scalar_type() == at::kFloat);
      CHECK(parameter.grad().abs().sum().item<double>() > 0);
    }
    CHECK(input.grad().scalar_type() == low);
    CHECK(at::equal(norms.forward(input.detach().to(at::kFloat)), exact));
  }
}

TEST_CASE("layers are replaced, parameters and their names stay", "[low_precision_norm]") {
  ResNet model(
      {.model_name = "resnet18", .num_classes = 4, .initializers = {}, .norm = "group_norm"});
  const auto before = model_tensors(model);
  const auto replacements = apply_low_precision_norm(model);
  CHECK(replacements.size() == 20);
  CHECK(replacements[0].path == "bn1");
  CHECK(replacements[0].before == "GroupNorm(32, 64)");
  CHECK(replacements[0].after == "LowPrecisionGroupNorm(32, 64)");
  const auto after = model_tensors(model);
  REQUIRE(after.size() == before.size());
  for (const auto& [name, tensor] : before) CHECK(after.at(name).data_ptr() == tensor.data_ptr());
}

TEST_CASE("a group-norm network trains in 16 bits", "[low_precision_norm]") {
  Fixture f;
  f.state.model = std::make_shared<ResNet>(ResNet::Params{
      .model_name = "resnet18", .num_classes = 5, .initializers = {}, .norm = "group_norm"});
  LowPrecisionNorm algorithm;
  algorithm.init(f.state);
  CHECK(algorithm.report().size() == 20);
  CHECK(f.logged("low_precision_norm/num_new_layers") == 20);
  const Autocast autocast(Precision::amp_bf16, at::kCPU);
  const auto outputs = f.state.model->forward(f.state.batch.input);
  f.state.model->loss(outputs, f.state.batch.target).backward();
  for (const auto& parameter : f.state.model->parameters())
    CHECK(parameter.grad().isfinite().all().item<bool>());
}

TEST_CASE("batch norm alone: nothing changes, no error; no norm at all: an error",
          "[low_precision_norm]") {
  Fixture f;
  CHECK_THROWS_WITH(apply_low_precision_norm(*f.state.model),
                    Contains("low_precision_norm") && Contains("group_norm"));
  f.state.model = std::make_shared<ResNetCifar>(
      ResNetCifar::Params{.model_name = "resnet_20", .initializers = {}});
  LowPrecisionNorm algorithm;
  algorithm.init(f.state);
  CHECK(algorithm.report().empty());
}

TEST_CASE("a recipe in fp32 is refused", "[low_precision_norm]") {
  const auto problems = [](const std::string& precision) {
    auto recipe = Value::map();
    recipe.set("precision", Value::scalar(precision));
    Problems found;
    check({{"low_precision_norm", {}, LowPrecisionNorm::compatibility()}}, recipe, found);
    return found.size();
  };
  CHECK(problems("fp32") == 1);
  for (const char* word : {"amp", "amp_fp16", "amp_bf16", "bf16"}) CHECK(problems(word) == 0);
}

TEST_CASE("norms over the channels of pixels stay as they are", "[low_precision_norm]") {
  ConvNeXt model({.num_classes = 10});
  model.eval();
  const at::NoGradGuard no_grad;
  const auto images = at::randn({1, 3, 32, 32});
  const auto before = model.forward(images);
  apply_low_precision_norm(model);
  const Autocast autocast(Precision::amp_bf16, at::kCPU);
  CHECK(relative_error(model.forward(images), before) < 0.05);
}

}  // namespace composer::low_precision_norm_test
