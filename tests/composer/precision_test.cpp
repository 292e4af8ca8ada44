#include "composer/optimization/precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "composer/error.h"

using namespace composer;

namespace {

at::ScalarType product_dtype() {
  return at::matmul(at::ones({2, 2}), at::ones({2, 2})).scalar_type();
}

}  // namespace

TEST_CASE("GPUs round the factors of float32 for tf32 alone", "[precision]") {
  const auto& context = at::globalContext();
  for (const auto precision :
       {Precision::tf32, Precision::fp32, Precision::amp_fp16, Precision::amp_bf16}) {
    set_float32_rounding(precision);
    CHECK(context.allowTF32CuDNN() == (precision == Precision::tf32));
    CHECK(context.allowTF32CuBLAS() == (precision == Precision::tf32));
  }
  CHECK(resolve_precision("tf32", at::kCUDA) == Precision::tf32);
  CHECK(resolve_precision("tf32", at::kCPU) == Precision::fp32);
  CHECK(name(Precision::tf32) == "tf32");
  const Autocast nothing(Precision::tf32, at::kCPU);
  CHECK(product_dtype() == at::kFloat);
}

TEST_CASE("autocast lasts as long as the object, also nested", "[precision]") {
  CHECK(product_dtype() == at::kFloat);
  {
    const Autocast outer(Precision::amp_bf16, at::kCPU);
    CHECK(product_dtype() == at::kBFloat16);
    {
      const Autocast inner(Precision::amp_fp16, at::kCPU);
      CHECK(product_dtype() == at::kHalf);
      const Autocast nothing(Precision::fp32, at::kCPU);
      CHECK(product_dtype() == at::kHalf);
    }
    CHECK(product_dtype() == at::kBFloat16);
  }
  CHECK(product_dtype() == at::kFloat);
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_CASE("weights are cast afresh for each outermost autocast", "[precision]") {
  at::Tensor weight = at::ones({2, 2}).set_requires_grad(true);
  const auto sum = [&] {
    const Autocast autocast(Precision::amp_bf16, at::kCPU);
    {
      const Autocast inner(Precision::amp_bf16, at::kCPU);
      at::matmul(weight, weight);
    }
    return at::matmul(weight, at::ones({2, 2})).sum().item<float>();
  };
  CHECK(sum() == 8);
  weight.detach().fill_(2);
  CHECK(sum() == 16);
}

TEST_CASE("the words of the recipe's precision", "[precision]") {
  CHECK(resolve_precision("fp32", at::kCPU) == Precision::fp32);
  CHECK(resolve_precision("bf16", at::kCPU) == Precision::amp_bf16);
  CHECK(resolve_precision("amp_bf16", at::kCUDA) == Precision::amp_bf16);
  CHECK(resolve_precision("amp_fp16", at::kCUDA) == Precision::amp_fp16);
  CHECK(resolve_precision("amp", at::kCUDA) == Precision::amp_fp16);
  CHECK(resolve_precision("amp", at::kCPU) != Precision::amp_fp16);
  CHECK_THROWS_WITH(resolve_precision("fp8", at::kCPU), Catch::Contains("fp8"));
  for (const auto precision : {Precision::fp32, Precision::amp_fp16, Precision::amp_bf16})
    CHECK(resolve_precision(name(precision), at::kCPU) == precision);
}

TEST_CASE("the loss scaler unscales, backs off and grows", "[precision]") {
  GradScaler scaler(true, at::kCPU);
  CHECK(scaler.scale(at::ones({})).item<float>() == 65536);

  std::vector<at::Tensor> gradients{
      at::full({3}, 65536.0),
      at::full({2, 3, 4, 4}, 32768.0).contiguous(at::MemoryFormat::ChannelsLast),
      at::full({4, 6}, 65536.0).slice(1, 0, 6, 2), at::full({2}, 65536.0, at::kBFloat16)};
  scaler.unscale(gradients);
  CHECK(scaler.found_inf().item<float>() == 0);
  CHECK(gradients[0].equal(at::ones({3})));
  CHECK(gradients[1].equal(at::full({2, 3, 4, 4}, 0.5)));
  CHECK(gradients[2].equal(at::ones({4, 3})));
  CHECK(gradients[3].equal(at::ones({2}, at::kBFloat16)));
  scaler.update();
  CHECK(scaler.growth_tracker().item<int>() == 1);

  for (const double bad : {INFINITY, -INFINITY, NAN}) {
    const float before = scaler.scale_tensor().item<float>();
    gradients = {at::ones({3}), at::full({1}, bad)};
    scaler.unscale(gradients);
    CHECK(scaler.found_inf().item<float>() == 1);
    scaler.update();
    CHECK(scaler.scale_tensor().item<float>() == before / 2);
    CHECK(scaler.growth_tracker().item<int>() == 0);
  }

  scaler.load_state_dict(
      {{{"scale", at::full({}, 1024.0)}, {"growth_tracker", at::full({}, 1998, at::kInt)}}, {}});
  for (const float expected : {1024, 2048, 2048}) {
    gradients = {at::ones({3})};
    scaler.unscale(gradients);
    scaler.update();
    CHECK(scaler.scale_tensor().item<float>() == expected);
  }
}

TEST_CASE("a loss scaler that is off does nothing", "[precision]") {
  GradScaler scaler(false, at::kCPU);
  const at::Tensor loss = at::ones({});
  CHECK(scaler.scale(loss).is_same(loss));
  std::vector<at::Tensor> gradients{at::full({1}, INFINITY)};
  scaler.unscale(gradients);
  scaler.update();
  CHECK_FALSE(scaler.found_inf().defined());
}
