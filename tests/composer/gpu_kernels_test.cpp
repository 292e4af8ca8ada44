// The kernels of libcomposer_cuda.so on a GPU: that they are what computes, and right.
#include <catch2/catch.hpp>
#include <cmath>

#include "nn/device/cuda_library.h"
#include "nn/network/normalize.h"
#include "tests/composer/norm_case.h"
#include "tests/gpu.h"

namespace composer::gpu_kernels_test {
namespace {

const at::Device gpu(at::kCUDA, 0);

/// On the GPU one operator computes the case, as float64 does to rounding.
void check_in_one_operator(const Case& given) {
  REQUIRE(why_step_by_step(on(gpu, given).call) == "");
  check(given, gpu, 1e-5);
}

}  // namespace

TEST_CASE("the GPU's fused batch norm is that of float64 to rounding", "[fused_norm][gpu]") {
  if (!test::has_gpu()) return;
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto activation = GENERATE(Activation::none, Activation::relu, Activation::gelu);
  at::manual_seed(3);
  for (const bool training : {true, false})
    for (const bool with_residual : {true, false})
      for (const auto& shape : std::vector<std::vector<int64_t>>{
               {3, 8, 7, 5}, {2, 64, 2, 1}, {2, 24, 56, 57}, {32, 2048, 4, 4}, {1, 264, 60, 60}}) {
        CAPTURE(type, activation, training, with_residual, shape);
        check_in_one_operator(random_case(shape, type, nhwc, with_residual, activation, training));
      }
}

TEST_CASE("the GPU's batch norm takes a norm of the residual", "[fused_norm][gpu]") {
  if (!test::has_gpu()) return;
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto activation = GENERATE(Activation::none, Activation::relu);
  at::manual_seed(4);
  for (const bool training : {true, false})
    for (const auto& shape : std::vector<std::vector<int64_t>>{
             {3, 8, 7, 5}, {2, 64, 2, 1}, {2, 24, 28, 29}, {1, 264, 20, 20}}) {
      CAPTURE(type, activation, training, shape);
      check_in_one_operator(
          with_residual_norm(random_case(shape, type, nhwc, true, activation, training)));
    }
}

TEST_CASE("the GPU's batch norm takes a max pool", "[fused_norm][gpu]") {
  if (!test::has_gpu()) return;
  const auto activation = GENERATE(Activation::none, Activation::relu, Activation::gelu);
  const auto pool = GENERATE(Pool2dOptions{{3, 3}, {2, 2}, {1, 1}}, Pool2dOptions{{2, 2}, {2, 2}},
                             Pool2dOptions{{3, 2}, {1, 3}, {1, 0}});
  at::manual_seed(5);
  for (const bool training : {true, false})
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{3, 8, 7, 5}, {2, 64, 2, 2}, {2, 24, 28, 29}}) {
      CAPTURE(pool.kernel, activation, training, shape);
      check_in_one_operator(
          with_pool(random_case(shape, at::kFloat, nhwc, false, activation, training), pool));
    }
}

TEST_CASE("the pool after the GPU's batch norm chooses as ATen does", "[fused_norm][gpu]") {
  if (!test::has_gpu()) return;
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  at::manual_seed(6);
  // Few values, so that most windows have equal ones; NaN, infinities and zeros of both signs.
  auto given = random_case({4, 16, 9, 11}, type, nhwc, false, Activation::none, false);
  auto& call = given.call;
  call.input = at::empty_like(call.input).copy_(at::randint(-2, 3, call.input.sizes()));
  const auto some = [&] { return at::rand(call.input.sizes()) < 0.02; };
  for (const double value : {std::nan(""), double{INFINITY}, -double{INFINITY}, -0.})
    call.input.masked_fill_(some(), value);
  call.weight.fill_(1), call.bias.fill_(0), call.running_mean.fill_(0), call.running_var.fill_(1);
  call.options.eps = 0;
  call.pool = Pool2dOptions{{3, 3}, {2, 2}, {1, 1}};
  const auto input = call.input.detach().clone().requires_grad_(true);
  const auto output = at::max_pool2d(input, {3, 3}, {2, 2}, {1, 1});
  given.gradient = at::empty_like(output).copy_(at::randint(1, 9, output.sizes()));
  output.backward(given.gradient);
  const auto chosen = on(at::kCPU, found(on(gpu, given)));
  CHECK(at::equal(chosen.output.nan_to_num(77), output.nan_to_num(77)));
  // Infinity times a slope of 0 is NaN.
  const auto finite = at::isfinite(call.input);
  CHECK(at::equal(chosen.input.masked_select(finite), input.grad().masked_select(finite)));
}

TEST_CASE("the GPU's normalisation has the CPU's bits", "[normalize][gpu]") {
  if (!test::has_gpu()) return;
  auto* const normalize_on_gpu = reinterpret_cast<NormalizeOnGpu*>(
      function_of_cuda_library("composer_normalize", "this test needs"));
  const std::vector<float> scale{0.017F, 0.0175F, 0.0174F}, shift{-2.1F, -2.03F, -1.8F};
  for (const int64_t channels : {1, 3})
    for (const auto format : {nchw, nhwc})
      for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
        CAPTURE(channels, format, type);
        const auto images = at::randint(256, {5, 33, 31, channels}, at::kByte);
        const auto of_channels = [&](const std::vector<float>& values) {
          return at::tensor(values).narrow(0, 0, channels);
        };
        const auto expected = (images.to(at::kFloat) * of_channels(scale) + of_channels(shift))
                                  .permute({0, 3, 1, 2})
                                  .to(type);
        const auto output = at::empty(expected.sizes(), at::dtype(type).device(at::kCUDA), format);
        REQUIRE(normalize_on_gpu(images.to(at::kCUDA), scale.data(), shift.data(), output));
        CHECK(at::equal(output.cpu(), expected));
      }
}

}  // namespace composer::gpu_kernels_test
