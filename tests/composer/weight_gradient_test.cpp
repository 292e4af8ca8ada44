#include "nn/network/weight_gradient.h"

#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <random>
#include <utility>

#include "nn/network/layers.h"
#include "nn/network/model.h"
#include "nn/network/precision.h"
#include "saved_tensors.h"

namespace composer::weight_gradient_test {

namespace {

struct Sizes {
  int64_t samples, in, height, width, out;
  std::array<int64_t, 2> kernel;
  int64_t stride;
  std::array<int64_t, 2> padding;

  Conv2dOptions options() const {
    return {.in_channels = in,
            .out_channels = out,
            .kernel = kernel,
            .stride = {stride, stride},
            .padding = padding,
            .bias = false};
  }
};

std::vector<tiles::Instructions> all_instructions() {
  const auto best = tile_instructions();
  if (!best) {
    WARN("skipped: this processor has no instructions for bfloat16");
    return {};
  }
  std::vector<tiles::Instructions> all{tiles::Instructions::avx512_bf16};
  if (*best == tiles::Instructions::amx_bf16) all.push_back(*best);
  return all;
}

at::Tensor images(at::IntArrayRef sizes) {
  return at::randn(sizes).to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor in_double(const at::Tensor& input, const at::Tensor& gradient,
                     const Conv2dOptions& options) {
  const auto weight =
      at::zeros({options.out_channels, options.in_channels, options.kernel[0], options.kernel[1]},
                at::kDouble);
  return std::get<1>(at::convolution_backward(
      gradient.to(at::kDouble), input.to(at::kDouble), weight, at::OptionalIntArrayRef(),
      options.stride, options.padding, options.dilation, false, {0, 0}, 1, {false, true, false}));
}

void check(const Sizes& sizes, tiles::Instructions instructions) {
  const auto options = sizes.options();
  const auto input = images({sizes.samples, sizes.in, sizes.height, sizes.width});
  const auto out = [&](int64_t d, int64_t size) {
    return (size + 2 * options.padding[d] - options.kernel[d]) / sizes.stride + 1;
  };
  const auto gradient =
      images({sizes.samples, sizes.out, out(0, sizes.height), out(1, sizes.width)});
  const auto wanted = in_double(input, gradient, options);
  const auto result = weight_gradient(input, gradient, options, instructions);
  REQUIRE(result.sizes() == wanted.sizes());
  REQUIRE(result.scalar_type() == at::kFloat);
  REQUIRE(result.is_contiguous(at::MemoryFormat::ChannelsLast));
  const auto terms = static_cast<double>(gradient.numel() / sizes.out);
  INFO(sizes.samples << " x " << sizes.in << " x " << sizes.height << " x " << sizes.width << " -> "
                     << sizes.out << ", kernel " << sizes.kernel[0] << " x " << sizes.kernel[1]
                     << ", stride " << sizes.stride << ", padding " << sizes.padding[0] << " and "
                     << sizes.padding[1]);
  // Terms are about 1: sums of so many keep an error of float32's rounding of their own size.
  CHECK((result - wanted).abs().max().item<double>() < 2e-6 * std::sqrt(terms) + 1e-6);
}

}  // namespace

TEST_CASE("the weight gradient is the sum of exact products", "[weight_gradient]") {
  const std::vector<Sizes> some{
      {2, 16, 9, 9, 16, {3, 3}, 1, {1, 1}},   {3, 20, 7, 11, 35, {3, 3}, 1, {1, 1}},
      {2, 8, 8, 8, 24, {3, 3}, 2, {1, 1}},    {2, 8, 9, 7, 24, {3, 3}, 2, {1, 1}},
      {2, 24, 6, 6, 40, {1, 1}, 1, {0, 0}},   {2, 24, 7, 6, 40, {1, 1}, 2, {0, 0}},
      {2, 3, 10, 10, 24, {2, 2}, 1, {0, 0}},  {2, 3, 32, 30, 24, {7, 7}, 2, {3, 3}},
      {1, 5, 8, 8, 9, {5, 5}, 1, {1, 1}},     {1, 5, 8, 8, 9, {5, 5}, 1, {3, 3}},
      {2, 17, 12, 5, 18, {3, 1}, 1, {1, 0}},  {2, 17, 12, 5, 18, {1, 4}, 3, {0, 2}},
      {1, 1, 1, 1, 1, {1, 1}, 1, {0, 0}},     {1, 33, 3, 3, 129, {3, 3}, 1, {0, 0}},
      {5, 64, 4, 4, 64, {3, 3}, 1, {1, 1}},   {2, 256, 3, 3, 300, {3, 3}, 1, {1, 1}},
      {1, 16, 130, 3, 16, {3, 3}, 1, {1, 1}}, {1, 4, 9, 9, 4, {2, 2}, 4, {1, 1}},
      {2, 40, 5, 5, 16, {4, 4}, 1, {3, 3}},
  };
  for (const auto instructions : all_instructions())
    for (const auto& sizes : some) check(sizes, instructions);
}

TEST_CASE("the weight gradient is right for whatever sizes", "[weight_gradient]") {
  std::mt19937 engine(7);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  for (const auto instructions : all_instructions())
    for (int i = 0; i < 60; ++i) {
      const std::array<int64_t, 2> kernel{draw(1, 5), draw(1, 5)};
      check({draw(1, 4),
             draw(1, 50),
             draw(5, 20),
             draw(5, 20),
             draw(1, 50),
             kernel,
             draw(1, 4),
             {draw(0, kernel[0] - 1), draw(0, kernel[1] - 1)}},
            instructions);
    }
}

TEST_CASE("the weight gradient is the same from any number of threads, to rounding",
          "[weight_gradient]") {
  const int threads = at::get_num_threads();
  for (const auto instructions : all_instructions())
    for (const int count : {1, 2, 3, 5}) {
      at::set_num_threads(count);
      check({3, 40, 9, 9, 50, {3, 3}, 1, {1, 1}}, instructions);
      check({2, 130, 4, 4, 300, {3, 3}, 1, {1, 1}}, instructions);
    }
  at::set_num_threads(threads);
}

TEST_CASE("infinities and NaN reach the weight gradient, of no other channel",
          "[weight_gradient]") {
  for (const auto instructions : all_instructions())
    for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
      const auto options = Sizes{2, 20, 6, 6, 18, {3, 3}, 1, {1, 1}}.options();
      const auto input = images({2, 20, 6, 6});
      auto gradient = images({2, 18, 6, 6});
      gradient[1][7][2][3] = bad;
      const auto result = weight_gradient(input, gradient, options, instructions);
      CHECK_FALSE(result[7].isfinite().any().item<bool>());
      CHECK(result.slice(0, 0, 7).isfinite().all().item<bool>());
      CHECK(result.slice(0, 8).isfinite().all().item<bool>());
    }
}

TEST_CASE(
    "a convolution under autocast has LibTorch's output and its gradients, the weight's more "
    "exact",
    "[weight_gradient]") {
  if (all_instructions().empty()) return;
  const auto sizes = GENERATE(Sizes{4, 24, 12, 10, 40, {3, 3}, 1, {1, 1}},
                              Sizes{4, 24, 11, 10, 40, {1, 1}, 2, {0, 0}},
                              Sizes{4, 3, 33, 32, 16, {7, 7}, 2, {3, 3}});
  const auto order = GENERATE(at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous);
  CAPTURE(order);
  auto options = sizes.options();
  options.bias = true;
  Conv2d layer(options);
  auto input = images({sizes.samples, sizes.in, sizes.height, sizes.width})
                   .contiguous(order)
                   .requires_grad_();
  const auto rounded = layer.weight.detach().to(at::kBFloat16).requires_grad_();
  const auto bias = layer.bias.detach().clone().requires_grad_();
  auto reference = input.detach().clone().requires_grad_();
  const Autocast autocast(Precision::amp_bf16, at::kCPU);

  const auto output = layer.forward(input);
  const auto expected = at::conv2d(reference, rounded, bias, options.stride, options.padding);
  CHECK(output.scalar_type() == at::kBFloat16);
  CHECK(at::equal(output, expected));
  CHECK(output.is_contiguous(order));

  const auto gradient = images(output.sizes());
  output.backward(gradient);
  expected.backward(gradient);
  CHECK(at::allclose(input.grad().to(at::kFloat), reference.grad().to(at::kFloat), 1e-2, 1e-2));
  CHECK(input.grad().is_contiguous(order));
  CHECK(layer.weight.grad().scalar_type() == at::kFloat);
  CHECK(layer.weight.grad().is_contiguous());
  const auto exact = in_double(input.detach(), gradient, options);
  const auto error = [&](const at::Tensor& of) {
    return (of.to(at::kDouble) - exact).norm().item<double>();
  };
  CHECK(error(layer.weight.grad()) < 0.05 * error(rounded.grad()));
  CHECK(at::allclose(layer.bias.grad(), gradient.to(at::kFloat).sum({0, 2, 3}), 1e-4, 1e-4));
}

TEST_CASE("a convolution keeps no input that a fused norm makes again, to the bit",
          "[weight_gradient]") {
  if (all_instructions().empty()) return;
  const int64_t stride = GENERATE(1, 2);
  const auto options = Sizes{4, 24, 12, 10, 40, {3, 3}, stride, {1, 1}}.options();
  const auto pixels = images({4, 24, 12, 10});
  const Autocast autocast(Precision::amp_bf16, at::kCPU);

  SECTION("the same gradients") {
    BatchNorm2d norm(24);
    Conv2d layer(options);
    norm.weight.detach().uniform_(-1, 1), norm.bias.detach().uniform_(-1, 1);
    auto input = pixels.clone().requires_grad_();
    const auto gradient = images(layer.forward(pixels).sizes());
    const auto taken = [](at::Tensor of) { return std::exchange(of.mutable_grad(), {}); };

    const auto whole = layer.forward(norm.forward(input, {}, Activation::relu));
    whole.backward(gradient);
    const auto of_input = taken(input), of_weight = taken(layer.weight);
    const auto of_scale = taken(norm.weight);

    const auto between = norm.forward(input, {}, Activation::relu);
    auto kept = between.detach().requires_grad_();
    layer.forward(kept).backward(gradient);
    between.backward(kept.grad());
    CHECK(at::equal(of_weight, layer.weight.grad()));
    CHECK(at::equal(of_input, input.grad()));
    CHECK(at::equal(of_scale, norm.weight.grad()));
    CHECK(of_weight.norm().item<double>() > 0);
  }

  SECTION("and less memory") {
    class Net : public Model {
     public:
      Net(const Conv2dOptions& options, Activation activation)
          : activation_(activation),
            norm_(add<BatchNorm2d>("norm", 24)),
            conv_(add<Conv2d>("conv", options)) {}
      at::Tensor forward(const at::Tensor& input) override {
        return conv_(norm_(input, {}, activation_));
      }
      int64_t num_classes() const override { return 1; }

     private:
      Activation activation_;
      Slot &norm_, &conv_;
    };
    const auto kept = [&](Activation activation) {
      Net net(options, activation);
      return test::saved_bytes(net, pixels);
    };
    CHECK(kept(Activation::none) - kept(Activation::relu) == static_cast<int64_t>(pixels.nbytes()));
  }
}

TEST_CASE("a convolution whose weight is frozen trains its bias", "[weight_gradient]") {
  if (all_instructions().empty()) return;
  auto options = Sizes{3, 3, 9, 9, 24, {2, 2}, 1, {0, 0}}.options();
  options.bias = true;
  Conv2d layer(options);
  layer.weight.requires_grad_(false);
  const Autocast autocast(Precision::amp_bf16, at::kCPU);
  const auto output = layer.forward(images({3, 3, 9, 9}));
  const auto gradient = images(output.sizes());
  output.backward(gradient);
  CHECK_FALSE(layer.weight.grad().defined());
  CHECK(at::allclose(layer.bias.grad(), gradient.to(at::kFloat).sum({0, 2, 3}), 1e-4, 1e-4));
  const at::InferenceMode inference;
  CHECK(layer.forward(images({3, 3, 9, 9})).scalar_type() == at::kBFloat16);
}

}  // namespace composer::weight_gradient_test
