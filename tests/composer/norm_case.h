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

inline Case in_double(const Case& given) {
  Case all = given;
  for (auto* tensor : {&all.call.input, &all.call.residual, &all.call.weight, &all.call.bias,
                       &all.call.running_mean, &all.call.running_var, &all.gradient})
    if (tensor->defined()) *tensor = tensor->to(at::kDouble);
  return all;
}

/// By leaves of its own.
inline Found found(const Case& given) {
  auto call = given.call;
  const auto leaf = [](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.detach().clone().requires_grad_(true);
  };
  leaf(call.input), leaf(call.residual), leaf(call.weight), leaf(call.bias);
  call.running_mean = call.running_mean.clone(), call.running_var = call.running_var.clone();
  const auto output = batch_norm_with(call);
  output.backward(given.gradient);
  return {output.detach(),
          call.running_mean,
          call.running_var,
          call.input.grad(),
          call.residual.defined() ? call.residual.grad() : at::Tensor(),
          call.weight.grad(),
          call.bias.grad()};
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

inline Case on(at::Device device, Case all) {
  for (auto* tensor : {&all.call.input, &all.call.residual, &all.call.weight, &all.call.bias,
                       &all.call.running_mean, &all.call.running_var, &all.gradient})
    if (tensor->defined()) *tensor = tensor->to(device);
  return all;
}

inline Found on(at::Device device, Found all) {
  for (auto* tensor :
       {&all.output, &all.mean, &all.variance, &all.input, &all.residual, &all.weight, &all.bias})
    if (tensor->defined()) *tensor = tensor->to(device);
  return all;
}

/// The case on the device against float64 step by step on the CPU. error: how far float32 may be
/// off there, as a share of the largest number.
inline void check(Case given, at::Device device = at::kCPU, double error = 1e-6) {
  auto exact = in_double(given);
  if (given.call.activation == Activation::relu) {
    // No gradient where rounding may decide about the sign.
    auto before = exact.call;
    before.activation = Activation::none;
    before.running_mean = before.running_mean.clone();
    before.running_var = before.running_var.clone();
    const auto close = batch_norm_with(before).abs() < 1e-4;
    given.gradient.masked_fill_(close, 0), exact.gradient.masked_fill_(close, 0);
  }
  const auto fused = on(at::kCPU, found(on(device, given))), expected = found(exact);
  const bool gelu = given.call.activation == Activation::gelu;
  check_images(fused.output, expected.output, given.call.input, error, 2 * error);
  check_images(fused.input, expected.input, given.call.input, gelu ? 0x1p-8 : error, 2 * error);
  if (given.call.residual.defined())
    check_images(fused.residual, expected.residual, given.call.input, error, 2 * error);
  CHECK(worst(fused.mean, expected.mean) < error);
  CHECK(worst(fused.variance, expected.variance) < error);
  CHECK(worst(fused.weight, expected.weight) < 4 * error);
  CHECK(worst(fused.bias, expected.bias) < 4 * error);
}

}  // namespace composer
