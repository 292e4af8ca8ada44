#include "nn/network/layers.h"

#include <ATen/autocast_mode.h>

#include "base/error.h"
#include "nn/network/bf16_conv2d.h"
#include "nn/network/fused_norm.h"
#include "nn/network/layer.h"
#include "nn/network/recompute.h"

namespace composer {
namespace {

// PyTorch's default for weights and biases of convolutions and linear layers: kaiming_uniform with
// a = sqrt(5).
at::Tensor uniform_by_fan_in(at::IntArrayRef shape, int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return at::empty(shape).uniform_(-bound, bound);
}

std::string pair(std::array<int64_t, 2> value, char separator = 'x') {
  return std::to_string(value[0]) + separator + std::to_string(value[1]);
}

std::string short_pair(std::array<int64_t, 2> value) {
  return value[0] == value[1] ? std::to_string(value[0]) : pair(value);
}

/// Throws LayerError if the padded image is smaller than the window. spare: rows and columns
/// that the last window may lack.
template <class Options>
void check_window(const Layer& layer, const at::Tensor& input, const Options& options,
                  std::array<int64_t, 2> spare = {0, 0}) {
  if (input.dim() != 4) return;
  std::array<int64_t, 2> given{}, least{};
  for (size_t d = 0; d < 2; ++d) {
    given[d] = d == 0 ? op::height(input) : input.size(3);
    least[d] =
        options.dilation[d] * (options.kernel[d] - 1) + 1 - 2 * options.padding[d] - spare[d];
    least[d] = std::max<int64_t>(least[d], 1);
  }
  if (given[0] >= least[0] && given[1] >= least[1]) return;
  throw LayerError(layer.describe() + " gets " + pair(given) + " pixels and needs " + pair(least) +
                   "; give the network larger images");
}

std::array<int64_t, 2> spare_of(const Pool2dOptions& options) {
  if (!options.ceil_mode) return {0, 0};
  return {options.stride[0] - 1, options.stride[1] - 1};
}

at::Tensor full_precision(const at::Tensor& input) {
  if (!at::autocast::is_autocast_enabled(input.device().type())) return input;
  return op::converted(input.to(at::kFloat), input);
}

}  // namespace

Conv2d::Conv2d(const Conv2dOptions& options) : options_(options) {
  const int64_t in_per_group = options.in_channels / options.groups;
  const int64_t fan_in = in_per_group * options.kernel[0] * options.kernel[1];
  weight = register_parameter("weight", uniform_by_fan_in({options.out_channels, in_per_group,
                                                           options.kernel[0], options.kernel[1]},
                                                          fan_in));
  if (options.bias)
    bias = register_parameter("bias", uniform_by_fan_in({options.out_channels}, fan_in));
}

at::Tensor Conv2d::forward(const at::Tensor& input) { return convolve(input, options_.stride); }

at::Tensor Conv2d::convolve(const at::Tensor& input, std::array<int64_t, 2> stride) const {
  check_window(*this, input, options_);
  auto options = options_;
  options.stride = stride;
  if (bf16_conv2d_takes(input, weight, options))
    return bf16_conv2d(input, weight, rounded_weight(weight, *weight_copy_), bias, options);
  return op::conv2d(input, autocast_weight(weight, weight_copy_), autocast_weight(bias, bias_copy_),
                    options);
}

std::string Conv2d::describe() const {
  std::string text = "Conv2d(" + std::to_string(options_.in_channels) + ", " +
                     std::to_string(options_.out_channels) + ", " + pair(options_.kernel);
  const std::array<int64_t, 2> one{1, 1};
  if (options_.stride != one) text += ", stride " + short_pair(options_.stride);
  if (options_.dilation != one) text += ", dilation " + short_pair(options_.dilation);
  if (options_.groups != 1) text += ", groups " + std::to_string(options_.groups);
  return text + ")";
}

BatchNorm2d::BatchNorm2d(int64_t channels, double eps, double momentum)
    : channels_(channels), eps_(eps), momentum_(momentum) {
  weight = register_parameter("weight", at::ones({channels}));
  bias = register_parameter("bias", at::zeros({channels}));
  running_mean = register_buffer("running_mean", at::zeros({channels}));
  running_var = register_buffer("running_var", at::ones({channels}));
  num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
}

double BatchNorm2d::weight_of_batch(const at::Tensor& input) {
  if (!is_training()) return 0;
  if (op::values_a_channel(input) == 1)
    throw LayerError(describe() +
                     " gets one value a channel in training, which has no variance; a batch "
                     "needs more samples: set drop_last: true for train_dataset, or another "
                     "train_batch_size or grad_accum");
  return take_up_batch();
}

NormCall BatchNorm2d::call(const at::Tensor& input, double momentum) const {
  return {.input = input,
          .weight = weight,
          .bias = bias,
          .running_mean = running_mean,
          .running_var = running_var,
          .options = {.eps = eps_, .momentum = momentum, .training = is_training()}};
}

at::Tensor BatchNorm2d::forward(const at::Tensor& input, const at::Tensor& residual,
                                Activation activation) {
  return normalized(input, residual, activation, weight_of_batch(input));
}

at::Tensor BatchNorm2d::normalized(const at::Tensor& input, const at::Tensor& residual,
                                   Activation activation, double momentum) {
  auto all = call(input, momentum);
  all.residual = residual, all.activation = activation;
  return batch_norm_with(all);
}

at::Tensor BatchNorm2d::forward_with_norm(const at::Tensor& input, const at::Tensor& residual,
                                          NormLayer& residual_norm, Activation activation) {
  auto* const other = dynamic_cast<BatchNorm2d*>(&residual_norm);
  if (!input.is_cuda() || !is_on(NormFusion::residual_norm) ||
      typeid(*this) != typeid(BatchNorm2d) || typeid(residual_norm) != typeid(BatchNorm2d))
    return {};
  auto all = call(input, 0);
  all.residual = residual, all.activation = activation;
  all.residual_norm = {other->weight,
                       other->bias,
                       other->running_mean,
                       other->running_var,
                       {.eps = other->eps_, .training = other->is_training()}};
  if (!why_step_by_step(all).empty()) return {};
  all.options.momentum = weight_of_batch(input);
  all.residual_norm.options.momentum = other->weight_of_batch(residual);
  return batch_norm_with(all);
}

at::Tensor BatchNorm2d::forward_pooled(const at::Tensor& input, Activation activation,
                                       const Pool2dOptions& pool) {
  if (!input.is_cuda() || !is_on(NormFusion::pool) || typeid(*this) != typeid(BatchNorm2d))
    return {};
  auto all = call(input, 0);
  all.activation = activation, all.pool = pool;
  if (!why_step_by_step(all).empty()) return {};
  all.options.momentum = weight_of_batch(input);
  return batch_norm_with(all);
}

double BatchNorm2d::take_up_batch() {
  if (again()) return 0;
  num_batches_tracked.add_(1);
  return momentum_;
}

void BatchNorm2d::to(at::Device device, at::ScalarType type, bool non_blocking) {
  const auto count = num_batches_tracked.detach();
  Layer::to(device, type, non_blocking);
  num_batches_tracked.set_data(count);
}

void BatchNorm2d::to(at::Device device, bool non_blocking) {
  const auto count = num_batches_tracked.detach();
  Layer::to(device, non_blocking);
  num_batches_tracked.set_data(count);
}

std::string BatchNorm2d::describe() const {
  return "BatchNorm2d(" + std::to_string(channels_) + ")";
}

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias)
    : in_features_(in_features), out_features_(out_features) {
  weight =
      register_parameter("weight", uniform_by_fan_in({out_features, in_features}, in_features));
  if (with_bias) bias = register_parameter("bias", uniform_by_fan_in({out_features}, in_features));
}

at::Tensor Linear::forward(const at::Tensor& input) {
  return op::linear(input, autocast_weight(weight, weight_copy_),
                    autocast_weight(bias, bias_copy_));
}

std::string Linear::describe() const {
  return "Linear(" + std::to_string(in_features_) + ", " + std::to_string(out_features_) + ")";
}

void Pool2d::check_size(const at::Tensor& input) const {
  check_window(*this, input, options_, spare_of(options_));
}

std::string Pool2d::describe() const {
  return name_ + "(" + pair(options_.kernel) + ", stride " + short_pair(options_.stride) + ")";
}

at::Tensor MaxPool2d::forward(const at::Tensor& input) {
  check_size(input);
  return op::max_pool2d(input, options());
}

at::Tensor AvgPool2d::forward(const at::Tensor& input) {
  check_size(input);
  return op::avg_pool2d(input, options());
}

at::Tensor ReLU::forward(const at::Tensor& input) {
  return in_place_ ? op::relu_(input) : op::relu(input);
}

at::Tensor AdaptiveAvgPool2d::forward(const at::Tensor& input) {
  const int64_t height = op::height(input), width = input.size(3);
  // Where all cells have one size, avg_pool2d gives the same, and its gradient is deterministic on
  // a GPU, unlike that of adaptive_avg_pool2d. For a single cell LibTorch computes a mean.
  if (size_ > 1 && height % size_ == 0 && width % size_ == 0) {
    const std::array<int64_t, 2> cell{height / size_, width / size_};
    return op::flatten(op::avg_pool2d(input, {.kernel = cell, .stride = cell}));
  }
  return op::flatten(op::adaptive_avg_pool2d(input, {{size_, size_}}));
}

std::string AdaptiveAvgPool2d::describe() const {
  return "AdaptiveAvgPool2d(" + std::to_string(size_) + ")";
}

LayerNorm::LayerNorm(int64_t features, double eps) : features_(features), eps_(eps) {
  weight = register_parameter("weight", at::ones({features}));
  bias = register_parameter("bias", at::zeros({features}));
}

at::Tensor LayerNorm::normalize(const at::Tensor& input) {
  return op::layer_norm(full_precision(input), weight, bias, {features_, eps_});
}

std::string LayerNorm::describe() const { return "LayerNorm(" + std::to_string(features_) + ")"; }

at::Tensor LayerNorm2d::normalize(const at::Tensor& input) {
  return op::to_nchw(LayerNorm::normalize(op::to_nhwc(input)));
}

std::string LayerNorm2d::describe() const {
  return "LayerNorm2d(" + std::to_string(features_) + ")";
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps)
    : groups_(groups), channels_(channels), eps_(eps) {
  if (groups < 1 || channels % groups != 0)
    throw UserError("group norm: " + std::to_string(channels) + " channels do not make " +
                    std::to_string(groups) + " groups of the same size");
  weight = register_parameter("weight", at::ones({channels}));
  bias = register_parameter("bias", at::zeros({channels}));
}

at::Tensor GroupNorm::normalize(const at::Tensor& input) {
  return op::group_norm(full_precision(input), weight, bias, {groups_, eps_});
}

std::string GroupNorm::describe() const {
  return "GroupNorm(" + std::to_string(groups_) + ", " + std::to_string(channels_) + ")";
}

}  // namespace composer
