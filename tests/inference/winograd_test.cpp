#include "inference/winograd.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "inference/fold.h"
#include "inference/winograd_simd.h"
#include "networks.h"
#include "tests/each_target.h"

namespace composer::winograd_test {
namespace {

/// A layer and the images that it is given.
struct Case {
  Conv2dOptions options;
  int64_t images, height, width;
  bool relu, bias;

  Case(int64_t in, int64_t out, std::array<int64_t, 2> padding, std::array<int64_t, 3> images_shape,
       bool relu, bool bias)
      : options{.in_channels = in, .out_channels = out, .kernel = {3, 3}, .padding = padding},
        images(images_shape[0]),
        height(images_shape[1]),
        width(images_shape[2]),
        relu(relu),
        bias(bias),
        weight(at::randn({out, in, 3, 3})),
        offset(bias ? at::randn({out}) : at::Tensor()),
        input(at::randn({images, in, height, width}).contiguous(at::MemoryFormat::ChannelsLast)) {}

  LayerParts parts() const {
    LayerParts parts{.weight = weight,
                     .bias = offset,
                     .convolution = &options,
                     .input_shape = {1, options.in_channels, height, width}};
    if (relu) parts.activation = OperationKind::relu;
    return parts;
  }

  at::Tensor exact(const at::Tensor& addend) const {
    auto sum =
        at::conv2d(input.to(at::kDouble), weight.to(at::kDouble),
                   bias ? offset.to(at::kDouble) : at::Tensor(), options.stride, options.padding);
    if (addend.defined()) sum = sum + addend;
    return relu ? sum.relu() : sum;
  }

  at::Tensor weight, offset, input;
};

std::vector<Case> cases() {
  at::manual_seed(5);
  return {
      {32, 32, {1, 1}, {1, 8, 8}, true, true},    {64, 64, {1, 1}, {3, 7, 9}, false, true},
      {40, 36, {1, 1}, {2, 5, 6}, true, false},   {33, 67, {0, 0}, {1, 9, 12}, true, true},
      {48, 96, {0, 1}, {2, 6, 3}, false, false},  {32, 35, {2, 1}, {1, 4, 5}, true, true},
      {256, 96, {1, 1}, {2, 14, 14}, true, true}, {80, 64, {1, 1}, {1, 56, 57}, false, true},
  };
}

/// Each in both sizes of tiles.
std::vector<std::pair<Case, int64_t>> cases_by_size() {
  std::vector<std::pair<Case, int64_t>> all;
  for (const auto& given : cases())
    for (const int64_t size : {2, 4}) all.emplace_back(given, size);
  return all;
}

double error(const at::Tensor& found, const at::Tensor& exact) {
  return (found - exact).abs().max().item<double>() / exact.abs().max().item<double>();
}

TEST_CASE("Winograd's convolutions are exact", "[inference][winograd]") {
  const c10::InferenceMode inference;
  for (const int64_t target : test::targets()) {
    const test::OnlyTarget only(target);
    if (winograd_kernels(2).panel == 0) continue;
    for (const auto& [given, size] : cases_by_size()) {
      CAPTURE(target, given.options.in_channels, given.options.out_channels, given.height, size);
      const auto layer = packed_by_winograd(given.parts(), size);
      const double most = size == 2 ? 1e-6 : 4e-6;
      const auto exact = given.exact({});
      const auto found = layer->run(given.input, {}, false);
      CHECK(found.is_contiguous(at::MemoryFormat::ChannelsLast));
      CHECK(error(found, exact) < most);
      CHECK(layer->run(given.input.contiguous(), {}, false).equal(found));

      const auto addend = at::randn(exact.sizes());
      const auto with_addend = given.exact(addend);
      CHECK(error(layer->run(given.input, addend, false), with_addend) < most);
      const auto overwritten = addend.clone(at::MemoryFormat::ChannelsLast);
      CHECK(layer->run(given.input, overwritten, true).is_same(overwritten));
      CHECK(error(overwritten, with_addend) < most);
    }
  }
}

TEST_CASE("threads and other images change no bit", "[inference][winograd]") {
  const c10::InferenceMode inference;
  const int threads = at::get_num_threads();
  for (const auto& [given, size] : cases_by_size()) {
    const auto layer = packed_by_winograd(given.parts(), size);
    at::set_num_threads(1);
    const auto expected = layer->run(given.input, {}, false);
    for (const int count : {2, 3, 16}) {
      at::set_num_threads(count);
      CHECK(layer->run(given.input, {}, false).equal(expected));
    }
    at::set_num_threads(threads);
    CHECK(layer->run(given.input.narrow(0, given.images - 1, 1), {}, false)
              .equal(expected.narrow(0, given.images - 1, 1)));
  }
}

TEST_CASE("numbers that are none stay", "[inference][winograd]") {
  const c10::InferenceMode inference;
  const Case given(32, 32, {1, 1}, {1, 8, 8}, true, true);
  given.input[0][3][4][4] = std::nan("");
  for (const int64_t size : {2, 4}) {
    const auto found = packed_by_winograd(given.parts(), size)->run(given.input, {}, false);
    CHECK(found[0].slice(1, 3, 6).slice(2, 3, 6).isnan().all().item<bool>());
  }
}

TEST_CASE("Winograd takes the layers in which it is faster", "[inference][winograd]") {
  const Case given(64, 64, {1, 1}, {1, 14, 14}, true, true);
  const auto takes = [](LayerParts parts, const auto& change) {
    auto options = *parts.convolution;
    change(parts, options);
    parts.convolution = &options;
    return winograd_tile_size(parts);
  };
  using Options = Conv2dOptions;
  if (winograd_kernels(2).panel > 0) {
    CHECK(takes(given.parts(), [](LayerParts&, Options&) {}) == 4);
    const auto many_weights = [](LayerParts& parts, Options& options) {
      options.in_channels = options.out_channels = 512;
      parts.input_shape = {1, 512, 7, 7};
    };
    CHECK(takes(given.parts(), many_weights) == 2);
  }
  const std::vector<std::function<void(LayerParts&, Options&)>> changes{
      [](LayerParts&, Options& options) {
        options.stride = {2, 2};
      },
      [](LayerParts&, Options& options) {
        options.stride = {1, 2};
      },
      [](LayerParts&, Options& options) {
        options.dilation = {2, 2};
      },
      [](LayerParts&, Options& options) { options.groups = 2; },
      [](LayerParts&, Options& options) {
        options.kernel = {1, 3};
      },
      [](LayerParts&, Options& options) { options.in_channels = 16; },
      [](LayerParts&, Options& options) { options.out_channels = 16; },
      [](LayerParts& parts, Options&) { parts.activation = OperationKind::gelu; },
      [](LayerParts& parts, Options&) { parts.weight = parts.weight.to(at::kBFloat16); },
      // Of the tiles' pixels too few lie in the output, or of the weights too many on a tile.
      [](LayerParts& parts, Options&) {
        parts.input_shape = {1, 64, 3, 3};
      },
      [](LayerParts& parts, Options& options) {
        options.in_channels = options.out_channels = 512;
        parts.input_shape = {1, 512, 4, 4};
      },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    CHECK(takes(given.parts(), changes[i]) == 0);
  }
}

TEST_CASE("it takes ResNet-50's 3 x 3 layers of stride 1", "[inference][winograd]") {
  if (winograd_kernels(2).panel == 0) return;
  auto given = test::network_cases()[1];
  given.image = {3, 224, 224};
  const auto graph = folded(test::trained(given, *test::settled(given)).graph);
  int64_t taken = 0;
  for (const auto& operation : graph.operations)
    if (operation.kind == OperationKind::conv2d)
      taken += winograd_tile_size({.weight = graph.constant(operation, 1),
                                   .bias = graph.constant(operation, 2),
                                   .convolution = std::get_if<Conv2dOptions>(&operation.options),
                                   .input_shape = graph.values[*operation.inputs[0]].shape}) > 0;
  CHECK(taken == 13);
}

}  // namespace
}  // namespace composer::winograd_test
