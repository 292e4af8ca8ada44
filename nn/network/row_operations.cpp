#include "nn/network/row_operations.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <limits>
#include <utility>

#include "nn/device/optional_tensor.h"
#include "nn/network/differentiable_once.h"

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* divided_images = "an operation on images that are divided by rows";
constexpr const char* undivided = "give spatial_ranks: 1";

template <class T>
struct HeldForRows : torch::CustomClassHolder {
  explicit HeldForRows(T value) : value(std::move(value)) {}
  T value;
};

template <class T>
c10::IValue held(const T& value) {
  return c10::IValue::make_capsule(c10::make_intrusive<HeldForRows<T>>(value));
}

template <class T>
T held_in(AutogradContext& context, const char* name) {
  return static_cast<const HeldForRows<T>&>(*context.saved_data.at(name).toCapsule()).value;
}

/// As autocast would round it for a convolution.
at::Tensor as_for_convolution(const at::Tensor& tensor) {
  const auto device = tensor.device().type();
  const bool rounded =
      at::autocast::is_autocast_enabled(device) && tensor.scalar_type() != at::kDouble;
  return rounded ? tensor.to(at::autocast::get_autocast_dtype(device)) : tensor;
}

struct ConvByRows : torch::autograd::Function<ConvByRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            const Conv2dOptions& options, const RowExchange& exchange) {
    const auto fetched = exchange.fetched(input);
    variable_list saved{input, weight};
    saved.insert(saved.end(), fetched.begin(), fetched.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["options"] = held(options);
    context->saved_data["exchange"] = held(exchange);
    context->saved_data["bias"] = bias.has_value();
    return at::conv2d(exchange.joined(input, fetched, 0), weight, bias, options.stride,
                      at::IntArrayRef{0, options.padding[1]}, options.dilation, options.groups);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto options = held_in<Conv2dOptions>(*context, "options");
    const auto exchange = held_in<RowExchange>(*context, "exchange");
    const bool bias = context->saved_data["bias"].toBool();
    const auto &input = saved[0], &weight = saved[1];
    const auto joined = exchange.joined(input, {saved.begin() + 2, saved.end()}, 0);
    const std::array<int64_t, 1> bias_sizes{weight.size(0)};
    const auto [of_joined, of_weight, of_bias] = at::convolution_backward(
        gradients[0], joined, weight, bias ? at::OptionalIntArrayRef(bias_sizes) : std::nullopt,
        options.stride, {0, options.padding[1]}, options.dilation, /*transposed=*/false, {0, 0},
        options.groups,
        {context->needs_input_grad(0), context->needs_input_grad(1),
         bias && context->needs_input_grad(2)});
    at::Tensor of_input;
    if (context->needs_input_grad(0)) of_input = exchange.gradient(of_joined);
    return differentiable_once({of_input, of_weight, of_bias, {}, {}}, divided_images, undivided);
  }
};

constexpr double below_all = -std::numeric_limits<double>::infinity();

struct MaxPoolByRows : torch::autograd::Function<MaxPoolByRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const Pool2dOptions& options, const RowExchange& exchange) {
    const auto fetched = exchange.fetched(input);
    const auto [output, places] = at::max_pool2d_with_indices(
        exchange.joined(input, fetched, below_all), options.kernel, options.stride,
        {0, options.padding[1]}, options.dilation, options.ceil_mode);
    variable_list saved{input, places};
    saved.insert(saved.end(), fetched.begin(), fetched.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["options"] = held(options);
    context->saved_data["exchange"] = held(exchange);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto options = held_in<Pool2dOptions>(*context, "options");
    const auto exchange = held_in<RowExchange>(*context, "exchange");
    const auto joined = exchange.joined(saved[0], {saved.begin() + 2, saved.end()}, below_all);
    const auto format = joined.suggest_memory_format();
    const auto of_joined = at::max_pool2d_with_indices_backward(
        gradients[0].contiguous(format), joined, options.kernel, options.stride,
        {0, options.padding[1]}, options.dilation, options.ceil_mode, saved[1].contiguous(format));
    return differentiable_once({exchange.gradient(of_joined), {}, {}}, divided_images, undivided);
  }
};

struct RowsNeeded : torch::autograd::Function<RowsNeeded> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const RowExchange& exchange) {
    context->saved_data["exchange"] = held(exchange);
    return exchange.joined(input, exchange.fetched(input), 0);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto exchange = held_in<RowExchange>(*context, "exchange");
    return differentiable_once({exchange.gradient(gradients[0]), {}}, divided_images, undivided);
  }
};

struct SumOverRanks : torch::autograd::Function<SumOverRanks> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& part, const Ranks& ranks) {
    context->saved_data["ranks"] = held(ranks);
    const auto sum = part.clone(at::MemoryFormat::Contiguous);
    ranks.sum(sum);
    return sum;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto sum = gradients[0].clone(at::MemoryFormat::Contiguous);
    held_in<Ranks>(*context, "ranks").sum(sum);
    return differentiable_once({sum, {}}, divided_images, undivided);
  }
};

at::ScalarType type_of_sums(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Sums over groups of channels, of all ranks: [N, groups] of [N, C, rows, W].
at::Tensor sums_of_groups(const at::Tensor& values, int64_t groups, const Ranks& ranks) {
  const auto sums =
      values.sum({2, 3}).view({values.size(0), groups, values.size(1) / groups}).sum(2);
  ranks.sum(sums);
  return sums;
}

/// [N, groups] for each channel: [N, C, 1, 1].
at::Tensor of_each_channel(const at::Tensor& of_groups, int64_t channels) {
  return of_groups.repeat_interleave(channels / of_groups.size(1), 1).unsqueeze(2).unsqueeze(3);
}

at::Tensor of_each_channel(const at::Tensor& of_channels) {
  return of_channels.view({1, -1, 1, 1});
}

struct GroupNormByRows : torch::autograd::Function<GroupNormByRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const GroupNormOptions& options, int64_t height, const Ranks& ranks) {
    const auto type = type_of_sums(input);
    const auto values = input.to(type);
    const int64_t channels = input.size(1);
    const auto count = static_cast<double>(channels / options.groups * height * input.size(3));
    const auto mean = sums_of_groups(values, options.groups, ranks) / count;
    const auto distance = values - of_each_channel(mean, channels);
    const auto inverse_deviation =
        (sums_of_groups(distance.square(), options.groups, ranks) / count + options.eps).rsqrt();
    context->save_for_backward({input, weight, mean, inverse_deviation});
    context->saved_data["ranks"] = held(ranks);
    context->saved_data["count"] = count;
    return (distance * of_each_channel(inverse_deviation, channels) *
                of_each_channel(weight.to(type)) +
            of_each_channel(bias.to(type)))
        .to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1], &mean = saved[2],
               &inverse_deviation = saved[3];
    const auto ranks = held_in<Ranks>(*context, "ranks");
    const double count = context->saved_data["count"].toDouble();
    const int64_t channels = input.size(1), groups = mean.size(1);
    const auto type = mean.scalar_type();
    const auto gradient = gradients[0].to(type);
    const auto scale = of_each_channel(inverse_deviation, channels);
    const auto normalized = (input.to(type) - of_each_channel(mean, channels)) * scale;
    const auto of_normalized = gradient * of_each_channel(weight.to(type));
    const auto sum = sums_of_groups(of_normalized, groups, ranks) / count,
               by_value = sums_of_groups(of_normalized * normalized, groups, ranks) / count;
    const auto of_input = (of_normalized - of_each_channel(sum, channels) -
                           normalized * of_each_channel(by_value, channels)) *
                          scale;
    const auto of_weight = (gradient * normalized).sum({0, 2, 3}),
               of_bias = gradient.sum({0, 2, 3});
    return differentiable_once({of_input.to(input.scalar_type()),
                                of_weight.to(weight.scalar_type()),
                                of_bias.to(weight.scalar_type()),
                                {},
                                {},
                                {}},
                               divided_images, undivided);
  }
};

}  // namespace

RowWindow row_window(const Conv2dOptions& options) {
  return {options.kernel[0], options.stride[0], options.padding[0], options.dilation[0]};
}

RowWindow row_window(const Pool2dOptions& options) {
  return {options.kernel[0], options.stride[0], options.padding[0], options.dilation[0],
          options.ceil_mode};
}

at::Tensor conv2d_by_rows(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                          const Conv2dOptions& options, const RowExchange& exchange) {
  const auto rows = as_for_convolution(input), filters = as_for_convolution(weight),
             offsets = bias.defined() ? as_for_convolution(bias) : bias;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  if (exchange.changes())
    return ConvByRows::apply(rows, filters, if_defined(offsets), options, exchange);
  return at::conv2d(rows, filters, if_defined(offsets), options.stride,
                    at::IntArrayRef{0, options.padding[1]}, options.dilation, options.groups);
}

at::Tensor max_pool2d_by_rows(const at::Tensor& input, const Pool2dOptions& options,
                              const RowExchange& exchange) {
  return MaxPoolByRows::apply(input, options, exchange);
}

at::Tensor avg_pool2d_by_rows(const at::Tensor& input, const Pool2dOptions& options,
                              const RowExchange& exchange) {
  return at::avg_pool2d(exchange.changes() ? RowsNeeded::apply(input, exchange) : input,
                        options.kernel, options.stride, at::IntArrayRef{0, options.padding[1]},
                        options.ceil_mode);
}

at::Tensor mean_by_rows(const at::Tensor& input, int64_t height, const Ranks& ranks) {
  const auto sum = at::sum(input, at::IntArrayRef{2, 3}, /*keepdim=*/false, type_of_sums(input));
  const auto count = static_cast<double>(height * input.size(3));
  return (SumOverRanks::apply(sum, ranks) / count).to(input.scalar_type());
}

at::Tensor group_norm_by_rows(const at::Tensor& input, const at::Tensor& weight,
                              const at::Tensor& bias, const GroupNormOptions& options,
                              int64_t height, const Ranks& ranks) {
  return GroupNormByRows::apply(input, weight, bias, options, height, ranks);
}

}  // namespace composer
