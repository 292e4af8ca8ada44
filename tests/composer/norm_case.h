// Batch normalisation in all its cases, against float64 step by step.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "nn/network/fused_norm.h"

namespace composer {

inline constexpr auto nchw = at::MemoryFormat::Contiguous, nhwc = at::MemoryFormat::ChannelsLast;

/// What a norm gets, and the gradient of its output. Tensors but `call`'s are undefined where there
/// is none.
struct Case {
  NormCall call;
  at::Tensor gradient;
};

/// A case's output, running statistics and gradients.
struct Found {
  at::Tensor output, mean, variance, input, residual, weight, bias;
  at::Tensor residual_mean{}, residual_variance{}, residual_weight{}, residual_bias{};
};

inline Case random_case(at::IntArrayRef shape, at::ScalarType type, at::MemoryFormat format,
                        bool with_residual, Activation activation, bool training) {
  const auto images = [&] { return at::randn(shape).to(type).contiguous(format); };
  const int64_t channels = shape[1];
  Case all;
  all.call.input = (images() * 2 + 1).contiguous(format);
  if (with_residual) all.call.residual = images();
  all.call.weight = at::rand({channels}) + 0.5;
  all.call.bias = at::randn({channels}) * 0.5;
  all.call.running_mean = at::randn({channels});
  all.call.running_var = at::rand({channels}) + 1;
  all.call.options = {.eps = 1e-5, .momentum = 0.2, .training = training};
  all.call.activation = activation;
  all.gradient = images();
  return all;
}

/// The same with a norm of the residual.
inline Case with_residual_norm(Case given) {
  const auto& call = given.call;
  const auto other = [](const at::Tensor& tensor) { return at::rand_like(tensor) + 0.5; };
  given.call.residual_norm = {other(call.weight), at::randn_like(call.bias) * 0.5,
                              other(call.running_mean), other(call.running_var), call.options};
  given.call.residual_norm.options.momentum = 0.3;
  return given;
}

/// The same with a max pool. A channel's values differ by more than rounding of float32.
inline Case with_pool(Case given, const Pool2dOptions& pool) {
  auto& input = given.call.input;
  const auto places = at::randperm(input.numel(), at::kFloat) / static_cast<double>(input.numel());
  input = at::empty_like(input).copy_((places * 6 - 2).view(input.sizes()));
  given.call.pool = pool;
  const auto output = at::max_pool2d(input, pool.kernel, pool.stride, pool.padding);
  given.gradient = at::empty_like(output).copy_(at::randn(output.sizes()));
  return given;
}

/// Applies `change` to each tensor that the case has.
template <class Change>
Case with_tensors(Case all, const Change& change) {
  auto& call = all.call;
  auto& other = call.residual_norm;
  for (auto* tensor : {&call.input, &call.residual, &call.weight, &call.bias, &call.running_mean,
                       &call.running_var, &other.weight, &other.bias, &other.running_mean,
                       &other.running_var, &all.gradient})
    if (tensor->defined()) *tensor = change(*tensor);
  return all;
}

inline Case in_double(const Case& given) {
  return with_tensors(given, [](const at::Tensor& tensor) { return tensor.to(at::kDouble); });
}

/// By leaves of its own.
inline Found found(const Case& given) {
  const auto all =
      with_tensors(given, [](const at::Tensor& tensor) { return tensor.detach().clone(); });
  auto call = all.call;
  auto& other = call.residual_norm;
  for (auto* tensor :
       {&call.input, &call.residual, &call.weight, &call.bias, &other.weight, &other.bias})
    if (tensor->defined()) tensor->requires_grad_(true);
  const auto output = batch_norm_with(call);
  output.backward(all.gradient);
  const auto gradient = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.grad() : at::Tensor();
  };
  return {output.detach(),         call.running_mean,      call.running_var,    call.input.grad(),
          gradient(call.residual), call.weight.grad(),     call.bias.grad(),    other.running_mean,
          other.running_var,       gradient(other.weight), gradient(other.bias)};
}

/// The largest distance, as a share of the largest number expected.
inline double worst(const at::Tensor& given, const at::Tensor& expected) {
  const double largest = expected.abs().max().item<double>();
  return (given.to(at::kDouble) - expected).abs().max().item<double>() / std::max(largest, 1e-3);
}

/// The largest distance as a share of what rounding to given's 16 bits makes at most, where `slack`
/// of the largest number is allowed besides.
inline double roundings(const at::Tensor& given, const at::Tensor& expected, double slack) {
  const double rounding = given.scalar_type() == at::kHalf ? 0x1p-11 : 0x1p-8;
  const double largest = expected.abs().max().item<double>();
  const auto off = (given.to(at::kDouble) - expected).abs();
  return ((off - slack * largest).clamp_min(0) / (expected.abs() * rounding + 1e-30))
      .max()
      .item<double>();
}

inline void check_images(const at::Tensor& given, const at::Tensor& expected,
                         const at::Tensor& like, double slack_in_16_bits, double error = 2e-6) {
  REQUIRE(given.defined());
  CHECK(given.strides() == like.strides());
  REQUIRE(given.scalar_type() == like.scalar_type());
  if (like.scalar_type() == at::kFloat)
    CHECK(worst(given, expected) < error);
  else
    CHECK(roundings(given, expected, slack_in_16_bits) <= 1.01);
}

inline Case on(at::Device device, const Case& all) {
  return with_tensors(all, [&](const at::Tensor& tensor) { return tensor.to(device); });
}

inline Found on(at::Device device, Found all) {
  for (auto* tensor :
       {&all.output, &all.mean, &all.variance, &all.input, &all.residual, &all.weight, &all.bias,
        &all.residual_mean, &all.residual_variance, &all.residual_weight, &all.residual_bias})
    if (tensor->defined()) *tensor = tensor->to(device);
  return all;
}

/// The case on the device against float64 step by step on the CPU. error: how far float32 may be
/// off there, as a share of the largest number.
inline void check(Case given, at::Device device = at::kCPU, double error = 1e-6) {
  auto exact = in_double(given);
  if (given.call.activation == Activation::relu) {
    // No gradient where rounding may decide about the sign.
    auto before = exact;
    before.call.activation = Activation::none;
    const auto close = found(before).output.abs() < 1e-4;
    given.gradient.masked_fill_(close, 0), exact.gradient.masked_fill_(close, 0);
  }
  const auto fused = on(at::kCPU, found(on(device, given))), expected = found(exact);
  const bool gelu = given.call.activation == Activation::gelu;
  check_images(fused.output, expected.output, given.gradient, error, 2 * error);
  check_images(fused.input, expected.input, given.call.input, gelu ? 0x1p-8 : error, 2 * error);
  if (given.call.residual.defined())
    check_images(fused.residual, expected.residual, given.call.input, error, 2 * error);
  CHECK(worst(fused.mean, expected.mean) < error);
  CHECK(worst(fused.variance, expected.variance) < error);
  CHECK(worst(fused.weight, expected.weight) < 4 * error);
  CHECK(worst(fused.bias, expected.bias) < 4 * error);
  if (!given.call.has_residual_norm()) return;
  CHECK(worst(fused.residual_mean, expected.residual_mean) < error);
  CHECK(worst(fused.residual_variance, expected.residual_variance) < error);
  CHECK(worst(fused.residual_weight, expected.residual_weight) < 4 * error);
  CHECK(worst(fused.residual_bias, expected.residual_bias) < 4 * error);
}

}  // namespace composer
