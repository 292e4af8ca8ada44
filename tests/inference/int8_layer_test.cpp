// Layers by AMX tiles and by dot products against sums of integers, and against oneDNN's operators.
#include "inference/int8_layer.h"

#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "inference/packed_layer.h"

namespace composer::int8_layer_test {
namespace {

struct TileCase {
  std::string name;
  Conv2dOptions options;
  int64_t height = 9, width = 9, images = 1;
  bool relu = true, adds = false, codes_out = true;
};

std::vector<TileCase> tile_cases() {
  using Pair = std::array<int64_t, 2>;
  const auto conv = [](int64_t in, int64_t out, Pair kernel, Pair stride = {1, 1},
                       Pair padding = {0, 0}) {
    return Conv2dOptions{.in_channels = in,
                         .out_channels = out,
                         .kernel = kernel,
                         .stride = stride,
                         .padding = padding};
  };
  return {
      {"1 x 1", conv(64, 256, {1, 1}), 56, 56},
      {"1 x 1, many weights", conv(512, 256, {1, 1}), 7, 7},
      {"1 x 1, many weights and images", conv(2048, 64, {1, 1}), 7, 7, 16},
      {"1 x 1, odd blocks, negative numbers", conv(128, 80, {1, 1}), 13, 5, 3, false},
      {"1 x 1, a sum", conv(64, 64, {1, 1}), 14, 14, 2, true, true},
      {"1 x 1, a sum, one pixel", conv(64, 40, {1, 1}), 1, 1, 1, false, true},
      {"1 x 1, few pixels, a sum", conv(64, 48, {1, 1}), 3, 6, 1, true, true},
      {"1 x 1, to numbers", conv(64, 24, {1, 1}), 9, 9, 2, false, false, false},
      {"1 x 1, few channels", conv(24, 20, {1, 1}), 11, 7, 5},
      {"1 x 1, fewer steps than pairs of rows", conv(3, 40, {1, 1}), 9, 14, 2},
      {"1 x 1, padded", conv(64, 16, {1, 1}, {1, 1}, {1, 2}), 5, 6, 2},
      {"1 x 1, strided", conv(128, 64, {1, 1}, {2, 2}), 14, 14, 2, false},
      {"1 x 1, strided, odd size, padded", conv(30, 33, {1, 1}, {2, 3}, {1, 1}), 9, 11, 3},
      {"3 x 3", conv(64, 64, {3, 3}, {1, 1}, {1, 1}), 56, 56},
      {"3 x 3, many weights", conv(256, 256, {3, 3}, {1, 1}, {1, 1}), 7, 7, 2},
      {"3 x 3, few channels, a sum", conv(16, 16, {3, 3}, {1, 1}, {1, 1}), 32, 32, 4, true, true},
      {"3 x 3, unpadded, to numbers", conv(20, 18, {3, 3}), 8, 10, 2, true, false, false},
      {"3 x 3, strided", conv(128, 128, {3, 3}, {2, 2}, {1, 1}), 28, 28, 2},
      {"3 x 3, strided, odd size", conv(40, 50, {3, 3}, {2, 2}, {1, 1}), 15, 13, 5, false},
      {"3 x 3, strided, even size", conv(33, 16, {3, 3}, {2, 2}, {1, 1}), 4, 4, 1},
      {"3 x 3, strides that skip", conv(16, 16, {3, 3}, {4, 5}, {0, 1}), 15, 17, 2},
      {"3 x 3, of a pixel", conv(64, 32, {3, 3}, {1, 1}, {1, 1}), 1, 1, 3},
      {"2 x 2, wide padding", conv(16, 16, {2, 2}, {1, 1}, {2, 2}), 1, 2, 2},
      {"2 x 3, strides that differ", conv(17, 31, {2, 3}, {1, 2}, {1, 0}), 12, 9, 2, false, true},
      {"a row", conv(48, 16, {1, 7}, {1, 1}, {0, 3}), 17, 17, 2},
      {"a column", conv(48, 16, {7, 1}, {1, 1}, {3, 0}), 17, 17, 2},
      {"a column, strided", conv(48, 16, {5, 1}, {2, 2}, {2, 0}), 17, 17, 2},
      {"the first of ResNet-50", conv(3, 64, {7, 7}, {2, 2}, {3, 3}), 61, 64, 2, true},
      {"more than a cache", conv(64, 16, {3, 3}, {1, 1}, {1, 1}), 90, 130, 2},
  };
}

/// Scales are powers of two: nothing but the outcome is rounded in float32.
struct ExactLayer {
  LayerParts parts;
  LayerCodes codes;
  at::Tensor input, addend;
};

at::Tensor random_codes(const std::vector<int64_t>& sizes, int64_t most = 256) {
  return at::randint(most, sizes, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
}

ExactLayer exact_layer(const TileCase& given, int64_t bits = 8) {
  at::manual_seed(7);
  const auto& options = given.options;
  const int64_t out = options.out_channels, most = int64_t{1} << bits;
  ExactLayer layer;
  layer.input = random_codes({given.images, options.in_channels, given.height, given.width}, most);
  layer.parts = {
      .weight = at::randint(
          -128, 128, {out, options.in_channels, options.kernel[0], options.kernel[1]}, at::kChar),
      .bias = at::randint(-20, 20, {out}).to(at::kFloat),
      .convolution = &given.options,
      .input_shape = layer.input.sizes().vec(),
      .activation = {}};
  if (given.relu) layer.parts.activation = OperationKind::relu;
  // Sums of random terms: their deviation is about 64 codes of the output.
  const auto terms = static_cast<double>(layer.parts.weight[0].numel());
  const double weight_scale = std::exp2(-std::round(std::log2(std::sqrt(terms) * 75)) - 1);
  layer.codes = {.weight_scale = at::full({out}, weight_scale),
                 .input = {0.5, 100 % most},
                 .output = {},
                 .activation_bits = bits};
  layer.codes.weight_scale.slice(0, 0, out, 3) *= 2;
  if (given.codes_out) layer.codes.output = Affine{0.5, given.relu ? 3 : 120 % most};
  if (given.adds) {
    layer.codes.addend = {0.25, 90};
    const auto outputs = at::conv2d(layer.input.to(at::kFloat), layer.parts.weight.to(at::kFloat),
                                    {}, options.stride, options.padding);
    layer.addend = random_codes(outputs.sizes().vec(), most);
  }
  return layer;
}

at::Tensor by_integers(const TileCase& given, const ExactLayer& layer) {
  const auto& [parts, codes, input, addend] = layer;
  const auto per_channel = [](const at::Tensor& values) {
    return values.to(at::kDouble).view({1, -1, 1, 1});
  };
  const auto numbers = [](const at::Tensor& of, const Affine& affine) {
    return (of.to(at::kDouble) - static_cast<double>(affine.zero_point)) * affine.scale;
  };
  auto sums = at::conv2d(numbers(input, codes.input), parts.weight.to(at::kDouble), {},
                         given.options.stride, given.options.padding);
  sums = sums * per_channel(codes.weight_scale) + per_channel(parts.bias);
  if (given.adds) sums += numbers(addend, codes.addend);
  if (given.relu) sums.clamp_min_(0);
  if (!codes.output) return sums.to(at::kFloat);
  const auto most = static_cast<double>((int64_t{1} << codes.activation_bits) - 1);
  return (sums / codes.output->scale)
      .round()
      .add(static_cast<double>(codes.output->zero_point))
      .clamp(0, most)
      .to(at::kByte);
}

LayerParts plain_parts(const Conv2dOptions& options) {
  return {.weight = at::full({options.out_channels, options.in_channels, 1, 1}, 127, at::kChar),
          .bias = {},
          .convolution = &options,
          .input_shape = {1, options.in_channels, 8, 8},
          .activation = {}};
}

LayerCodes plain_codes(int64_t out) {
  return {.weight_scale = at::ones({out}), .input = {1, 10}, .output = Affine{2, 21}};
}

/// Those that this processor has, each of which is to be tested.
std::vector<Int8Instructions> instructions_here() {
  std::vector<Int8Instructions> all;
  const auto best = int8_instructions();
  if (!best)
    WARN(
        "skipped: this processor has neither AVX512-VNNI nor AMX tiles for 8 bits, or they are "
        "not permitted");
  else
    all.push_back(Int8Instructions::avx512_vnni);
  if (best == Int8Instructions::amx_int8)
    all.push_back(*best);
  else if (best)
    WARN("skipped in part: this processor has no AMX tiles for 8 bits, or they are not permitted");
  return all;
}

struct Threads {
  explicit Threads(int count) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before); }
  int before = at::get_num_threads();
};

TEST_CASE("a layer by tiles is the sum of its integers", "[inference][tiles]") {
  for (const auto instructions : instructions_here())
    for (const int threads : {1, 2, 5})
      for (const auto& given : tile_cases()) {
        CAPTURE(given.name, threads);
        const Threads scope(threads);
        const auto layer = exact_layer(given);
        const auto expected = by_integers(given, layer);
        const auto tiles = int8_layer(layer.parts, layer.codes, instructions);
        for (const bool overwrite : {false, true}) {
          const auto addend = layer.addend.defined() ? layer.addend.clone() : at::Tensor();
          const auto found = tiles->run(layer.input, addend, overwrite);
          REQUIRE(found.sizes() == expected.sizes());
          CHECK(found.equal(expected));
          if (!given.adds) break;
          CHECK((found.data_ptr() == addend.data_ptr()) == overwrite);
          if (!overwrite) CHECK(addend.equal(layer.addend));
        }
      }
}

TEST_CASE("a layer by tiles takes any number of images, and codes of 7 bits",
          "[inference][tiles]") {
  const auto all = tile_cases();
  for (const auto instructions : instructions_here())
    for (const size_t index : {size_t{4}, size_t{14}, size_t{17}}) {
      const auto& given = all.at(index);
      CAPTURE(given.name);
      const auto layer = exact_layer(given, 7);
      const auto tiles = int8_layer(layer.parts, layer.codes, instructions);
      for (int64_t images = 1; images <= layer.input.size(0); ++images) {
        auto some = layer;
        some.input = layer.input.narrow(0, 0, images);
        if (given.adds) some.addend = layer.addend.narrow(0, 0, images);
        CHECK(tiles->run(some.input, some.addend, false).equal(by_integers(given, some)));
      }
    }
}

TEST_CASE("halves of a code go to even ones by tiles", "[inference][tiles]") {
  const Conv2dOptions options{.in_channels = 64, .out_channels = 16, .kernel = {1, 1}};
  auto parts = plain_parts(options);
  parts.weight = at::zeros_like(parts.weight);
  parts.weight.slice(1, 0, 1).fill_(1);
  const auto input = at::arange(0, 64, at::kByte).view({1, 1, 8, 8}).expand({1, 64, 8, 8});
  const auto expected = ((input.to(at::kDouble) - 10) / 2).round() + 21;
  for (const auto instructions : instructions_here()) {
    const auto found = int8_layer(parts, plain_codes(16), instructions)->run(input, {}, false);
    CHECK(found.to(at::kDouble).equal(expected.slice(1, 0, 16)));
  }
}

TEST_CASE("a linear layer by tiles is the sum of its integers", "[inference][tiles]") {
  for (const auto instructions : instructions_here())
    for (const int64_t features : {64, 100, 2048})
      for (const int64_t images : {1, 5, 40}) {
        CAPTURE(features, images);
        const TileCase given{
            .name = "linear",
            .options = {.in_channels = features, .out_channels = 90, .kernel = {1, 1}},
            .height = 1,
            .width = 1,
            .images = images,
            .relu = false,
            .codes_out = false};
        auto layer = exact_layer(given);
        const auto expected = by_integers(given, layer).flatten(1);
        layer.parts.weight = layer.parts.weight.flatten(1);
        layer.parts.convolution = nullptr;
        layer.parts.input_shape = {1, features};
        const auto found = int8_layer(layer.parts, layer.codes, instructions)
                               ->run(layer.input.flatten(1), {}, false);
        REQUIRE(found.sizes() == expected.sizes());
        CHECK(found.equal(expected));
      }
}

TEST_CASE("a layer by tiles is oneDNN's, but for sums between two codes", "[inference][tiles]") {
  for (const auto instructions : instructions_here())
    for (const auto& given : tile_cases()) {
      CAPTURE(given.name);
      auto layer = exact_layer(given);
      layer.codes.weight_scale =
          layer.codes.weight_scale * 0.9 + at::rand({given.options.out_channels}) * 1e-4;
      layer.codes.input.scale = 0.4711;
      layer.codes.addend.scale = 0.3;
      if (given.codes_out) layer.codes.output->scale = 0.57;
      const auto run = [&](std::unique_ptr<PackedLayer> packed) {
        return packed
            ->run(layer.input, layer.addend.defined() ? layer.addend.clone() : at::Tensor(), false)
            .to(at::kFloat);
      };
      const auto found = run(int8_layer(layer.parts, layer.codes, instructions));
      const auto expected = run(onednn_layer(layer.parts, layer.codes));
      const auto distance = (found - expected).abs();
      if (!given.codes_out) {
        CHECK(at::allclose(found, expected, 1e-5, 1e-4));
        continue;
      }
      CHECK(distance.max().item<double>() <= 1);
      CHECK(distance.mean().item<double>() < 1e-3);
    }
}

TEST_CASE("layers that tiles do not take go another way", "[inference][tiles]") {
  Conv2dOptions options{.in_channels = 64, .out_channels = 64, .kernel = {1, 1}};
  const auto parts = plain_parts(options);
  auto codes = plain_codes(64);
  options.groups = 2;
  CHECK_FALSE(int8_layer_takes(parts, codes));
  options.groups = 1, options.dilation = {1, 2};
  CHECK_FALSE(int8_layer_takes(parts, codes));
  options.dilation = {1, 1};
  auto pixels = plain_parts(options);
  pixels.input_shape = {1, 20, 1, 1};
  CHECK((int8_instructions() == Int8Instructions::amx_int8) == int8_layer_takes(pixels, codes));
  codes.output->scale = 1e-9;
  CHECK_FALSE(int8_layer_takes(parts, codes));
}

TEST_CASE("weights lie side by side on pages that outlive their taking", "[inference][tiles]") {
  WeightPages pages;
  const auto first = pages.take(100), second = pages.take(1 << 20);
  CHECK(second.get() == first.get() + 128);
  const auto large = pages.take(9 << 20), after = pages.take(64);
  std::fill_n(large.get(), 9 << 20, int8_t{1});
  std::fill_n(first.get(), 100, int8_t{2});
  CHECK(after.get() != large.get());
  for (const auto* const taken : {first.get(), second.get(), large.get(), after.get()})
    CHECK(reinterpret_cast<uintptr_t>(taken) % 64 == 0);
  CHECK(large.get()[0] == 1);
}

}  // namespace
}  // namespace composer::int8_layer_test
