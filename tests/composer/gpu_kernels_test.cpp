// The kernels of libcomposer_cuda.so on a GPU: that they are what computes, and right.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "nn/device/cuda_library.h"
#include "nn/network/normalize.h"
#include "tests/composer/norm_case.h"
#include "tests/gpu.h"

namespace composer::gpu_kernels_test {

namespace {

/// Where there is none, or a stand-in, the test's output says why it does not run.
bool has_kernels() {
  if (!test::has_gpu()) return false;
  if (std::getenv("COMPOSER_TEST_STAND_IN") == nullptr) return true;
  WARN("skipped: the GPU is a stand-in, which runs no kernels");
  return false;
}

}  // namespace

TEST_CASE("the GPU's fused batch norm is that of float64 to rounding", "[fused_norm][gpu]") {
  if (!has_kernels()) return;
  const at::Device gpu(at::kCUDA, 0);
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto activation = GENERATE(Activation::none, Activation::relu, Activation::gelu);
  at::manual_seed(3);
  for (const bool training : {true, false})
    for (const bool with_residual : {true, false})
      for (const auto& shape : std::vector<std::vector<int64_t>>{
               {3, 8, 7, 5}, {2, 64, 2, 1}, {2, 24, 56, 57}, {32, 2048, 4, 4}, {1, 264, 60, 60}}) {
        CAPTURE(type, activation, training, with_residual, shape);
        const auto given = random_case(shape, type, nhwc, with_residual, activation, training);
        REQUIRE(why_step_by_step(on(gpu, given).call) == "");
        check(given, gpu, 1e-5);
      }
}

TEST_CASE("the GPU's normalisation has the CPU's bits", "[normalize][gpu]") {
  if (!has_kernels()) return;
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
