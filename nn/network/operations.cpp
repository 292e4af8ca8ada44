#include "nn/network/operations.h"

#include <ATen/Context.h>

#include <type_traits>
#include <utility>

#include "nn/device/optional_tensor.h"
#include "nn/network/recorder.h"
#include "nn/network/spatial_parallel.h"

namespace composer {
namespace {

/// The result of `compute`. A recorder records it as one operation; with spatial parallelism each
/// rank computes its rows.
at::Tensor reported(OperationKind kind, const auto& options, at::ArrayRef<const at::Tensor*> inputs,
                    const auto& compute) {
  if (auto* const parallel = SpatialParallel::current())
    return parallel->computed(kind, options, inputs, compute);
  Recorder* const recorder = Recorder::current();
  if (recorder == nullptr) return compute();
  const Recorder::Own own(*recorder);
  auto operation = recorder->started(kind, options, inputs);
  auto output = compute();
  recorder->ended(std::move(operation), output);
  return output;
}

constexpr std::monostate no_options;

}  // namespace

namespace op {

at::Tensor conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                  const Conv2dOptions& options) {
  return reported(OperationKind::conv2d, options, {&input, &weight, &bias}, [&] {
    return at::conv2d(input, weight, if_defined(bias), options.stride, options.padding,
                      options.dilation, options.groups);
  });
}

at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  return reported(OperationKind::linear, no_options, {&input, &weight, &bias},
                  [&] { return at::linear(input, weight, if_defined(bias)); });
}

at::Tensor batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& mean, const at::Tensor& variance,
                      const BatchNormOptions& options) {
  return reported(
      OperationKind::batch_norm, options, {&input, &weight, &bias, &mean, &variance}, [&] {
        return at::batch_norm(input, if_defined(weight), if_defined(bias), if_defined(mean),
                              if_defined(variance), options.training, options.momentum, options.eps,
                              at::globalContext().userEnabledCuDNN());
      });
}

at::Tensor group_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                      const GroupNormOptions& options) {
  return reported(OperationKind::group_norm, options, {&input, &weight, &bias}, [&] {
    // LibTorch's channels-last backward writes the input's gradient even if nobody asked for it,
    // and crashes.
    const bool crashes = !input.requires_grad() && weight.defined() && weight.requires_grad() &&
                         input.is_cpu() && at::GradMode::is_enabled();
    return at::group_norm(crashes ? input.contiguous() : input, options.groups, if_defined(weight),
                          if_defined(bias), options.eps);
  });
}

at::Tensor layer_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                      const LayerNormOptions& options) {
  return reported(OperationKind::layer_norm, options, {&input, &weight, &bias}, [&] {
    return at::layer_norm(input, {options.features}, if_defined(weight), if_defined(bias),
                          options.eps);
  });
}

at::Tensor relu(const at::Tensor& input) {
  return reported(OperationKind::relu, no_options, {&input}, [&] { return at::relu(input); });
}

at::Tensor relu_(at::Tensor input) {
  return reported(OperationKind::relu, no_options, {&input}, [&] { return input.relu_(); });
}

at::Tensor gelu(const at::Tensor& input) {
  return reported(OperationKind::gelu, no_options, {&input}, [&] { return at::gelu(input); });
}

at::Tensor sigmoid(const at::Tensor& input) {
  return reported(OperationKind::sigmoid, no_options, {&input}, [&] { return at::sigmoid(input); });
}

at::Tensor sigmoid_(at::Tensor input) {
  return reported(OperationKind::sigmoid, no_options, {&input}, [&] { return input.sigmoid_(); });
}

at::Tensor silu(const at::Tensor& input) {
  return reported(OperationKind::silu, no_options, {&input}, [&] { return at::silu(input); });
}

at::Tensor hardsigmoid(const at::Tensor& input) {
  return reported(OperationKind::hardsigmoid, no_options, {&input},
                  [&] { return at::hardsigmoid(input); });
}

at::Tensor hardswish(const at::Tensor& input) {
  return reported(OperationKind::hardswish, no_options, {&input},
                  [&] { return at::hardswish(input); });
}

at::Tensor add(const at::Tensor& input, const at::Tensor& other) {
  return reported(OperationKind::add, no_options, {&input, &other},
                  [&] { return at::add(input, other); });
}

at::Tensor add_(at::Tensor input, const at::Tensor& other) {
  return reported(OperationKind::add, no_options, {&input, &other},
                  [&] { return input.add_(other); });
}

at::Tensor multiply(const at::Tensor& input, const at::Tensor& other) {
  return reported(OperationKind::multiply, no_options, {&input, &other},
                  [&] { return at::mul(input, other); });
}

at::Tensor scale(const at::Tensor& input, double factor) {
  return reported(OperationKind::scale, ScaleOptions{factor}, {&input},
                  [&] { return at::mul(input, factor); });
}

at::Tensor max_pool2d(const at::Tensor& input, const Pool2dOptions& options) {
  return reported(OperationKind::max_pool2d, options, {&input}, [&] {
    return at::max_pool2d(input, options.kernel, options.stride, options.padding, options.dilation,
                          options.ceil_mode);
  });
}

at::Tensor avg_pool2d(const at::Tensor& input, const Pool2dOptions& options) {
  return reported(OperationKind::avg_pool2d, options, {&input}, [&] {
    return at::avg_pool2d(input, options.kernel, options.stride, options.padding,
                          options.ceil_mode);
  });
}

at::Tensor adaptive_avg_pool2d(const at::Tensor& input, const AdaptivePool2dOptions& options) {
  return reported(OperationKind::adaptive_avg_pool2d, options, {&input},
                  [&] { return at::adaptive_avg_pool2d(input, options.size); });
}

at::Tensor mean(const at::Tensor& input) {
  return reported(OperationKind::mean, no_options, {&input}, [&] {
    return at::mean(input, at::IntArrayRef{2, 3});
  });
}

at::Tensor flatten(const at::Tensor& input) {
  return reported(OperationKind::flatten, no_options, {&input}, [&] { return input.flatten(1); });
}

at::Tensor to_nhwc(const at::Tensor& input) {
  return reported(OperationKind::to_nhwc, no_options, {&input}, [&] {
    return input.permute({0, 2, 3, 1});
  });
}

at::Tensor to_nchw(const at::Tensor& input) {
  return reported(OperationKind::to_nchw, no_options, {&input}, [&] {
    return input.permute({0, 3, 1, 2});
  });
}

at::Tensor unsqueeze(const at::Tensor& input) {
  return reported(OperationKind::unsqueeze, no_options, {&input},
                  [&] { return input.unsqueeze(2).unsqueeze(3); });
}

at::Tensor expand(const at::Tensor& input, const ExpandOptions& options) {
  return reported(OperationKind::expand, options, {&input},
                  [&] { return input.expand(options.shape); });
}

at::Tensor cat(const std::vector<at::Tensor>& inputs) {
  std::vector<const at::Tensor*> all;
  for (const auto& input : inputs) all.push_back(&input);
  return reported(OperationKind::cat, no_options, all, [&] { return at::cat(inputs, 1); });
}

at::Tensor standardize_weight(const at::Tensor& weight, const StandardizeOptions& options) {
  return reported(OperationKind::standardize_weight, options, {&weight}, [&] {
    std::vector<int64_t> dims;
    for (int64_t d = 1; d < weight.dim(); ++d) dims.push_back(d);
    const auto [variance, mean] = at::var_mean(weight, dims, /*unbiased=*/false, /*keepdim=*/true);
    return (weight - mean) * (variance + options.eps).rsqrt();
  });
}

bool recorded() { return Recorder::current() != nullptr; }

bool one_by_one() { return recorded() || SpatialParallel::current() != nullptr; }

int64_t height(const at::Tensor& images) {
  const auto* const parallel = SpatialParallel::current();
  const auto known = parallel == nullptr ? std::nullopt : parallel->find(images);
  return known && known->held == SpatialParallel::Held::rows ? known->height : images.size(2);
}

int64_t values_a_channel(const at::Tensor& input) {
  int64_t values = input.size(0);
  for (int64_t d = 2; d < input.dim(); ++d) values *= d == 2 ? height(input) : input.size(d);
  return values;
}

at::Tensor converted(at::Tensor output, const at::Tensor& input) {
  auto* const parallel = SpatialParallel::current();
  const auto known = parallel == nullptr ? std::nullopt : parallel->find(input);
  return known ? parallel->keep(std::move(output), *known) : output;
}

at::Tensor constant(at::Tensor tensor) {
  if (auto* const recorder = Recorder::current()) recorder->forget(tensor);
  return tensor;
}

}  // namespace op

namespace {

using Inputs = std::vector<at::Tensor>;

/// The argument for a function's i-th parameter, of type T.
template <class T>
decltype(auto) argument(const Inputs& inputs, const OperationOptions& options, size_t i) {
  static const at::Tensor absent;
  if constexpr (std::is_same_v<T, const Inputs&>)
    return inputs;
  else if constexpr (std::is_same_v<T, const at::Tensor&>)
    return i < inputs.size() ? inputs[i] : absent;
  else if constexpr (std::is_same_v<T, double>)
    return double{std::get<ScaleOptions>(options).factor};
  else
    return std::get<std::remove_cvref_t<T>>(options);
}

template <class... T>
at::Tensor call_with(at::Tensor (*function)(T...), const Inputs& inputs,
                     const OperationOptions& options) {
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return function(argument<T>(inputs, options, i)...);
  }
  (std::index_sequence_for<T...>());
}

template <auto function>
at::Tensor call(const Inputs& inputs, const OperationOptions& options) {
  return call_with(function, inputs, options);
}

struct Operation {
  std::string_view name;
  at::Tensor (*call)(const Inputs& inputs, const OperationOptions& options);
};

/// The operations in the order of OperationKind.
constexpr Operation operations[]{
    {"adaptive_avg_pool2d", call<op::adaptive_avg_pool2d>},
    {"add", call<op::add>},
    {"avg_pool2d", call<op::avg_pool2d>},
    {"batch_norm", call<op::batch_norm>},
    {"cat", call<op::cat>},
    {"conv2d", call<op::conv2d>},
    {"expand", call<op::expand>},
    {"flatten", call<op::flatten>},
    {"gelu", call<op::gelu>},
    {"group_norm", call<op::group_norm>},
    {"hardsigmoid", call<op::hardsigmoid>},
    {"hardswish", call<op::hardswish>},
    {"layer_norm", call<op::layer_norm>},
    {"linear", call<op::linear>},
    {"max_pool2d", call<op::max_pool2d>},
    {"mean", call<op::mean>},
    {"multiply", call<op::multiply>},
    {"relu", call<op::relu>},
    {"scale", call<op::scale>},
    {"sigmoid", call<op::sigmoid>},
    {"silu", call<op::silu>},
    {"standardize_weight", call<op::standardize_weight>},
    {"to_nchw", call<op::to_nchw>},
    {"to_nhwc", call<op::to_nhwc>},
    {"unsqueeze", call<op::unsqueeze>},
};

}  // namespace

std::string_view name(OperationKind kind) { return operations[static_cast<size_t>(kind)].name; }

at::Tensor compute(OperationKind kind, const OperationOptions& options, const Inputs& inputs) {
  return operations[static_cast<size_t>(kind)].call(inputs, options);
}

}  // namespace composer
