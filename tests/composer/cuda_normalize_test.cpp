// The kernels of normalisation for GPUs, run on the CPU thread by thread, against normalize().
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "cuda/normalize_call.h"
#include "cuda/normalize_kernels.h"
#include "nn/network/normalize.h"
#include "tests/on_host.h"

namespace composer::cuda_normalize_test {

using namespace composer::cuda;

namespace {

Normalization normalization_of(int64_t channels) {
  Normalization normalization{{123.675, 116.28, 103.53}, {58.395, 57.12, 57.375}};
  normalization.mean.resize(static_cast<size_t>(channels));
  normalization.std.resize(static_cast<size_t>(channels));
  return normalization;
}

/// scale and shift as normalize() has them.
std::pair<std::vector<float>, std::vector<float>> lines_of(const Normalization& normalization) {
  std::vector<float> scale, shift;
  for (size_t c = 0; c < normalization.mean.size(); ++c) {
    scale.push_back(static_cast<float>(1 / normalization.std[c]));
    shift.push_back(static_cast<float>(-normalization.mean[c] / normalization.std[c]));
  }
  return {scale, shift};
}

at::Tensor of_kernels(const at::Tensor& images, const Normalization& normalization,
                      at::MemoryFormat format, at::ScalarType type) {
  const auto [scale, shift] = lines_of(normalization);
  const auto output = at::empty({images.size(0), images.size(3), images.size(1), images.size(2)},
                                at::TensorOptions(type), format);
  output.fill_(77);
  const auto given = normalize_arguments(images, scale.data(), shift.data(), output);
  REQUIRE(given.has_value());
  OnHost run;
  with_type<at::Half, at::BFloat16>(given->type,
                                    [&]<class T>() { normalize_pass<T>(*given, run); });
  return output;
}

/// The last thread of a kernel.
struct Last {
  template <int channels>
  void operator()(const Grid& grid, const NormalizeInterleavedKernel<float, channels>& kernel) {
    const int64_t threads = (kernel.count + values_at_once - 1) / values_at_once;
    const auto last = static_cast<int>((threads - 1) % grid.lanes_x);
    kernel.phase(0, cuda::Place{grid.blocks_x - 1, 0, last, 0, grid.lanes_x, 1}, nullptr);
  }
  template <int channels>
  void operator()(const Grid&, const NormalizePlanarKernel<float, channels>&) {}
};

}  // namespace

TEST_CASE("the GPU's normalisation gives the CPU's bits", "[cuda_normalize]") {
  const auto type = GENERATE(at::kFloat, at::kHalf, at::kBFloat16);
  const auto format = GENERATE(at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous);
  const int64_t channels = GENERATE(1, 3);
  CAPTURE(type, format, channels);
  for (const auto& [samples, height, width] :
       {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 7}, {2, 32, 32}, {5, 33, 65}}) {
    CAPTURE(samples, height, width);
    at::manual_seed(7);
    const auto images = at::randint(256, {samples, height, width, channels}, at::kByte);
    const auto normalization = normalization_of(channels);
    const auto found = of_kernels(images, normalization, format, type);
    CHECK(at::equal(found, normalize(images, normalization, format, type)));
    CHECK(at::equal(found, normalize(images, normalization, format).to(type)));
  }
}

TEST_CASE("every byte is normalised to the CPU's bits", "[cuda_normalize]") {
  const auto images = at::arange(256, at::kByte).view({1, 16, 16, 1}).expand({1, 16, 16, 3});
  const auto bytes = images.contiguous();
  const auto normalization = normalization_of(3);
  const auto format = at::MemoryFormat::ChannelsLast;
  CHECK(at::equal(of_kernels(bytes, normalization, format, at::kFloat),
                  normalize(bytes, normalization, format)));
}

TEST_CASE("what the GPU's kernels of normalisation do not take is left to others",
          "[cuda_normalize]") {
  const std::vector<float> line(8, 1);
  const auto takes = [&](const at::Tensor& images, at::ScalarType type) {
    const auto output = at::empty({images.size(0), images.size(3), images.size(1), images.size(2)},
                                  at::TensorOptions(type));
    return normalize_arguments(images, line.data(), line.data(), output).has_value();
  };
  const auto images = at::zeros({4, 3, 3, 3}, at::kByte);
  CHECK(takes(images, at::kFloat));
  CHECK_FALSE(takes(images, at::kDouble));
  CHECK_FALSE(takes(images.slice(0, 1), at::kFloat));  // 27 bytes from where memory begins
  CHECK_FALSE(takes(images.transpose(1, 2), at::kFloat));
  CHECK_FALSE(takes(at::zeros({0, 3, 3, 3}, at::kByte), at::kFloat));
  CHECK_FALSE(takes(at::zeros({1, 3, 3, 4}, at::kByte), at::kFloat));
}

TEST_CASE("threads find their numbers and channels, however many there are before",
          "[cuda_normalize]") {
  const int64_t pixels = (int64_t{1} << 32) / 3;  // numbers beyond 32 bits
  const int64_t count = 3 * pixels, first = (count - 1) / values_at_once * values_at_once;
  std::vector<uint8_t> bytes(values_at_once, 10);
  std::vector<float> results(values_at_once, -1);
  NormalizeArguments given{
      NumberType::fp32,      1, pixels, 3, false, {1, 2, 3}, {0, 0, 0}, bytes.data() - first,
      results.data() - first};
  Last run;
  normalize_pass<float>(given, run);
  for (int64_t i = first; i < count; ++i)
    CHECK(results[static_cast<size_t>(i - first)] == 10.f * static_cast<float>(i % 3 + 1));
}

}  // namespace composer::cuda_normalize_test
