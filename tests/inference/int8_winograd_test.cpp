// 3 x 3 layers of codes by Winograd's algorithm, against the same by dot products, bit by bit.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <typeinfo>
#include <vector>

#include "inference/int8_layer.h"
#include "inference/int8_winograd_layer.h"

namespace composer::int8_winograd_test {
namespace {

enum class Codes { random, most, ends };

struct Case {
  std::string name;
  Conv2dOptions options;
  int64_t images, height, width;
  bool relu = true, adds = false;
  int64_t bits = 8;
  bool bias = true;
  Codes codes = Codes::random;

  std::vector<int64_t> input_shape() const { return {images, options.in_channels, height, width}; }
};

Conv2dOptions conv(int64_t in, int64_t out, std::array<int64_t, 2> padding = {1, 1}) {
  return {.in_channels = in, .out_channels = out, .kernel = {3, 3}, .padding = padding};
}

std::vector<Case> cases() {
  return {
      {"whole tiles", conv(64, 64), 1, 16, 16},
      {"tiles beyond the output, images", conv(64, 96), 3, 7, 9},
      {"channels in part", conv(40, 50), 2, 13, 6},
      {"a channel", conv(1, 1), 2, 9, 9},
      {"more than a panel by one", conv(33, 65), 1, 10, 11},
      {"unpadded", conv(32, 32, {0, 0}), 2, 9, 12},
      {"padded otherwise", conv(32, 48, {2, 0}), 1, 5, 8},
      {"a pixel", conv(64, 32), 3, 1, 1},
      {"an addend", conv(48, 80), 2, 11, 14, true, true},
      {"an addend, negative numbers", conv(64, 33), 1, 6, 7, false, true},
      {"negative numbers", conv(36, 64), 2, 8, 8, false},
      {"7 bits", conv(64, 64), 1, 14, 14, true, false, 7},
      {"no bias", conv(32, 40), 2, 9, 8, true, false, 8, false},
      {"weights from far, many blocks", conv(128, 160), 2, 30, 31},
      {"the largest codes", conv(64, 32), 1, 12, 12, false, false, 8, true, Codes::most},
      {"the least and the largest codes", conv(64, 32), 1, 12, 12, false, false, 8, true,
       Codes::ends},
  };
}

struct Layer {
  LayerParts parts;
  LayerCodes codes;
  at::Tensor input, addend;
};

at::Tensor codes_of(const Case& given, const std::vector<int64_t>& sizes) {
  const int64_t most = (int64_t{1} << given.bits) - 1;
  auto codes = given.codes == Codes::random ? at::randint(most + 1, sizes)
                                            : at::full(sizes, static_cast<double>(most));
  if (given.codes == Codes::ends) codes = codes * at::randint(2, sizes);
  return codes.to(at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
}

Layer layer_of(const Case& given) {
  at::manual_seed(3);
  const auto& options = given.options;
  const int64_t out = options.out_channels;
  Layer layer;
  auto weight = at::randint(-128, 128, {out, options.in_channels, 3, 3}, at::kChar);
  if (given.codes != Codes::random) {
    weight = at::full_like(weight, 127);
    weight.slice(0, 1, out, 2).fill_(-128);
  }
  const double deviation = std::sqrt(static_cast<double>(weight[0].numel())) * 75 * 147;
  const double largest = static_cast<double>(weight[0].numel()) * 128 * 255;
  layer.input = codes_of(given, given.input_shape());
  layer.parts = {.weight = weight,
                 .bias = given.bias ? at::randn({out}) * 20 : at::Tensor(),
                 .convolution = &given.options,
                 .input_shape = given.input_shape(),
                 .activation = {}};
  if (given.relu) layer.parts.activation = OperationKind::relu;
  const double scale = given.codes == Codes::random ? 40 / deviation : 120 / largest;
  layer.codes = {.weight_scale = (at::rand({out}) + 0.5) * scale,
                 .input = {1.1, 20},
                 .output = Affine{0.9, given.relu ? 0 : 120},
                 .activation_bits = given.bits};
  if (given.adds) {
    layer.codes.addend = {0.3, 90};
    layer.addend = codes_of(given, {given.images, out, given.height + 2 * options.padding[0] - 2,
                                    given.width + 2 * options.padding[1] - 2});
  }
  return layer;
}

bool skips() {
  if (int8_instructions()) return false;
  WARN("skipped: this processor has no AVX512-VNNI, or it is not permitted");
  return true;
}

TEST_CASE("codes by Winograd are those by dot products", "[inference][int8_winograd]") {
  if (skips()) return;
  const c10::InferenceMode inference;
  const int before = at::get_num_threads();
  for (const auto& given : cases()) {
    const auto layer = layer_of(given);
    REQUIRE(int8_winograd_takes(layer.parts, layer.codes));
    const auto tiles = int8_layer(layer.parts, layer.codes, Int8Instructions::avx512_vnni);
    const auto expected = tiles->run(layer.input, layer.addend, false);
    // Not all at an end of the codes.
    CHECK(std::get<0>(at::_unique(expected)).size(0) > 1);
    const auto winograd = packed_by_int8_winograd(layer.parts, layer.codes);
    for (const int threads : {1, 2, 5}) {
      CAPTURE(given.name, threads);
      at::set_num_threads(threads);
      const auto found = winograd->run(layer.input, layer.addend, false);
      CHECK(found.is_contiguous(at::MemoryFormat::ChannelsLast));
      CHECK(found.equal(expected));
      CHECK(winograd->run(layer.input.contiguous(), layer.addend, false).equal(expected));
      std::array<at::Tensor, 2> from_threads;
      at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t end) {
        const c10::InferenceMode inference_there;
        for (int64_t i = begin; i < end; ++i)
          from_threads[static_cast<size_t>(i)] = winograd->run(layer.input, layer.addend, false);
      });
      for (const auto& one : from_threads) CHECK(one.equal(expected));
      if (!given.adds) continue;
      CHECK(winograd->run(layer.input, layer.addend.contiguous(), false).equal(expected));
      const auto addend = layer.addend.clone();
      CHECK(winograd->run(layer.input, addend, true).is_same(addend));
      CHECK(addend.equal(expected));
    }
    at::set_num_threads(before);
    const int64_t last = given.images - 1;
    const auto of_last = layer.addend.defined() ? layer.addend.narrow(0, last, 1) : at::Tensor();
    CHECK(winograd->run(layer.input.narrow(0, last, 1), of_last, false)
              .equal(expected.narrow(0, last, 1)));
  }
}

TEST_CASE("sums of more than 25 bits go another way", "[inference][int8_winograd]") {
  if (skips()) return;
  const Case given{"", conv(128, 32), 1, 8, 8, false};
  auto layer = layer_of(given);
  layer.input.fill_(255);
  layer.codes.weight_scale.fill_(2e-6);
  // 1024 of the 1152 weights of an output, of one sign.
  auto& weight = layer.parts.weight;
  weight = at::zeros_like(weight);
  const auto of_last = weight[31].flatten().slice(0, 0, 1024);
  for (const int sign : {1, -1}) {
    of_last.fill_(127 * sign);
    REQUIRE(int8_winograd_takes(layer.parts, layer.codes));
    CHECK(packed_by_int8_winograd(layer.parts, layer.codes)
              ->run(layer.input, {}, false)
              .equal(int8_layer(layer.parts, layer.codes, Int8Instructions::avx512_vnni)
                         ->run(layer.input, {}, false)));
    of_last.fill_(0);
    weight[31].flatten().slice(0, 0, 1040).fill_(127 * sign);
    CHECK_FALSE(int8_winograd_takes(layer.parts, layer.codes));
    weight.zero_();
  }
}

TEST_CASE("weights of either sign are summed for themselves", "[inference][int8_winograd]") {
  if (skips()) return;
  const Case given{"", conv(256, 32), 1, 8, 8, false};
  auto layer = layer_of(given);
  layer.parts.weight = at::zeros_like(layer.parts.weight);
  const auto of_last = layer.parts.weight[31].flatten();
  of_last.slice(0, 0, 1040).fill_(127);
  of_last.slice(0, 1040, 2080).fill_(-127);
  CHECK_FALSE(int8_winograd_takes(layer.parts, layer.codes));
}

TEST_CASE("layers that Winograd does not take with codes", "[inference][int8_winograd]") {
  if (skips()) return;
  const Case given = cases().front();
  const auto takes = [&](const auto& change) {
    auto layer = layer_of(given);
    auto options = given.options;
    change(layer, options);
    layer.parts.convolution = &options;
    return int8_winograd_takes(layer.parts, layer.codes);
  };
  CHECK(takes([](Layer&, Conv2dOptions&) {}));
  CHECK_FALSE(takes([](Layer&, Conv2dOptions& options) { options.stride = {2, 2}; }));
  CHECK_FALSE(takes([](Layer&, Conv2dOptions& options) { options.dilation = {2, 2}; }));
  CHECK_FALSE(takes([](Layer&, Conv2dOptions& options) { options.groups = 2; }));
  CHECK_FALSE(takes([](Layer&, Conv2dOptions& options) { options.kernel = {3, 1}; }));
  CHECK_FALSE(takes([](Layer& layer, Conv2dOptions&) { layer.codes.output.reset(); }));
}

TEST_CASE("a layer that Winograd computes quicker is packed for it", "[inference][int8_winograd]") {
  if (skips()) return;
  const Case given = cases().front();
  const auto layer = layer_of(given);
  const auto packed_layer = packed(layer.parts, layer.codes);
  const auto winograd = packed_by_int8_winograd(layer.parts, layer.codes);
  CHECK((typeid(*packed_layer) == typeid(*winograd)) == int8_winograd_is_quicker(layer.parts));
}

TEST_CASE("Winograd with codes is quicker where there are tiles enough",
          "[inference][int8_winograd]") {
  if (skips()) return;
  if (int8_instructions() == Int8Instructions::amx_int8)
    WARN("skipped in part: this processor has AMX tiles, which are quicker");
  const bool here = int8_instructions() == Int8Instructions::avx512_vnni;
  const auto quicker = [](int64_t channels, int64_t size) {
    const auto options = conv(channels, channels);
    LayerParts parts;
    parts.convolution = &options;
    parts.input_shape = {1, channels, size, size};
    return int8_winograd_is_quicker(parts);
  };
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  CHECK(quicker(64, 56) == here);
  CHECK(quicker(128, 28) == here);
  CHECK(quicker(256, 14) == here);
  CHECK(quicker(512, 14) == here);
  CHECK_FALSE(quicker(512, 7));
  CHECK_FALSE(quicker(16, 32));
  CHECK_FALSE(quicker(64, 1));
  // Each thread reads all weights of a panel for two tiles.
  at::set_num_threads(64);
  CHECK_FALSE(quicker(256, 14));
  at::set_num_threads(before);
}

}  // namespace
}  // namespace composer::int8_winograd_test
