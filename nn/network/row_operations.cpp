#include "nn/network/row_operations.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/rank_environment.h"
#include "nn/device/optional_tensor.h"
#include "nn/network/autograd_node.h"
#include "nn/network/layer.h"

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* divided_images = "an operation on images that are divided by rows";
constexpr const char* without_rows = "give spatial_ranks: 1";

/// Converts as autocast does for a convolution.
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
    const auto& options = held_in<Conv2dOptions>(*context, "options");
    const auto& exchange = held_in<RowExchange>(*context, "exchange");
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
    return differentiable_once({of_input, of_weight, of_bias, {}, {}}, divided_images,
                               without_rows);
  }
};

constexpr double below_all = -std::numeric_limits<double>::infinity();

struct MaxPoolByRows : torch::autograd::Function<MaxPoolByRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const Pool2dOptions& options, const RowExchange& exchange) {
    const auto fetched = exchange.fetched(input);
    const auto [output, indices] = at::max_pool2d_with_indices(
        exchange.joined(input, fetched, below_all), options.kernel, options.stride,
        {0, options.padding[1]}, options.dilation, options.ceil_mode);
    variable_list saved{input, indices};
    saved.insert(saved.end(), fetched.begin(), fetched.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["options"] = held(options);
    context->saved_data["exchange"] = held(exchange);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& options = held_in<Pool2dOptions>(*context, "options");
    const auto& exchange = held_in<RowExchange>(*context, "exchange");
    const auto joined = exchange.joined(saved[0], {saved.begin() + 2, saved.end()}, below_all);
    const auto format = joined.suggest_memory_format();
    const auto of_joined = at::max_pool2d_with_indices_backward(
        gradients[0].contiguous(format), joined, options.kernel, options.stride,
        {0, options.padding[1]}, options.dilation, options.ceil_mode, saved[1].contiguous(format));
    return differentiable_once({exchange.gradient(of_joined), {}, {}}, divided_images,
                               without_rows);
  }
};

struct RowsNeeded : torch::autograd::Function<RowsNeeded> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const RowExchange& exchange) {
    context->saved_data["exchange"] = held(exchange);
    return exchange.joined(input, exchange.fetched(input), 0);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& exchange = held_in<RowExchange>(*context, "exchange");
    return differentiable_once({exchange.gradient(gradients[0]), {}}, divided_images, without_rows);
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
    return differentiable_once({sum, {}}, divided_images, without_rows);
  }
};

at::ScalarType type_of_sums(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Sums over groups of channels and over all ranks: [N, groups] of [N, C, rows, W].
at::Tensor sums_of_groups(const at::Tensor& values, int64_t groups, const Ranks& ranks) {
  const auto sums =
      values.sum({2, 3}).view({values.size(0), groups, values.size(1) / groups}).sum(2);
  ranks.sum(sums);
  return sums;
}

/// [N, groups] -> [N, C, 1, 1].
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
    const auto& ranks = held_in<Ranks>(*context, "ranks");
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
                               divided_images, without_rows);
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

RowRange common(RowRange a, RowRange b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

RowRange own_rows(int64_t height, int64_t rank, int64_t ranks) {
  return {share_begin(height, rank, ranks), share_begin(height, rank + 1, ranks)};
}

int64_t RowWindow::output_height(int64_t height) const {
  const int64_t last = height + 2 * padding - span();
  if (last < 0)
    throw LayerError("images of " + std::to_string(height) + " rows, with " +
                     std::to_string(padding) +
                     " of padding on either side, are too small for a "
                     "window of " +
                     std::to_string(span()));
  const int64_t rows = (last + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  // A window must not begin in the padding below.
  return ceil_mode && (rows - 1) * stride >= height + padding ? rows - 1 : rows;
}

RowRange RowWindow::input_of(RowRange output, int64_t height) const {
  if (output.empty()) return {-span(), 0};
  const int64_t end = (output.end - 1) * stride - padding + span();
  return {output.begin * stride - padding, cut_off ? std::min(end, height + padding) : end};
}

int64_t most_rows_exchanged(int64_t height, const RowWindow& window, int64_t ranks) {
  const int64_t output_height = window.output_height(height);
  std::vector<int64_t> given(static_cast<size_t>(ranks)), taken(given.size());
  for (int64_t to = 0; to < ranks; ++to) {
    const auto needed = window.input_of(own_rows(output_height, to, ranks), height);
    for (int64_t from = 0; from < ranks; ++from) {
      if (from == to) continue;
      const int64_t rows = common(own_rows(height, from, ranks), needed).size();
      given[static_cast<size_t>(from)] += rows, taken[static_cast<size_t>(to)] += rows;
    }
  }
  return std::max(std::ranges::max(given), std::ranges::max(taken));
}

RowExchange::RowExchange(Ranks ranks, int64_t height, const RowWindow& window)
    : ranks_(std::move(ranks)), rank_(static_cast<size_t>(ranks_.rank())) {
  const int64_t output_height = window.output_height(height);
  for (int64_t rank = 0; rank < ranks_.size(); ++rank) {
    owned_.push_back(own_rows(height, rank, ranks_.size()));
    needed_.push_back(window.input_of(own_rows(output_height, rank, ranks_.size()), height));
  }
}

RowRange RowExchange::sent(size_t from, size_t to) const {
  return from == to ? RowRange{} : common(owned_[from], needed_[to]);
}

at::Tensor RowExchange::rows_of(const at::Tensor& tensor, int64_t first, RowRange rows) {
  return tensor.narrow(2, rows.empty() ? 0 : rows.begin - first, rows.size());
}

std::vector<at::Tensor> RowExchange::exchanged(const at::Tensor& tensor, int64_t first,
                                               bool back) const {
  std::vector<at::Tensor> given, taken;
  bool any = false;
  auto sizes = tensor.sizes().vec();
  for (size_t other = 0; other < owned_.size(); ++other) {
    for (size_t to = 0; to < owned_.size(); ++to) any = any || !sent(other, to).empty();
    const auto outgoing = sent(rank_, other), incoming = sent(other, rank_);
    given.push_back(rows_of(tensor, first, back ? incoming : outgoing).contiguous());
    sizes[2] = (back ? outgoing : incoming).size();
    taken.push_back(at::empty(sizes, tensor.options()));
  }
  if (any) ranks_.exchange(given, taken);
  return taken;
}

std::vector<at::Tensor> RowExchange::fetched(const at::Tensor& rows) const {
  return exchanged(rows, own().begin, /*back=*/false);
}

at::Tensor RowExchange::joined(const at::Tensor& rows, const std::vector<at::Tensor>& fetched,
                               double outside) const {
  if (own() == needed()) return rows;
  auto sizes = rows.sizes().vec();
  sizes[2] = needed().size();
  const auto all = at::empty(sizes, rows.options(), rows.suggest_memory_format());
  RowRange inside{needed().end, needed().begin};
  for (size_t rank = 0; rank < owned_.size(); ++rank) {
    const auto part = common(owned_[rank], needed());
    if (part.empty()) continue;
    inside = {std::min(inside.begin, part.begin), std::max(inside.end, part.end)};
    rows_of(all, needed().begin, part)
        .copy_(rank == rank_ ? rows_of(rows, own().begin, part) : fetched[rank]);
  }
  if (inside.empty()) return all.fill_(outside);
  rows_of(all, needed().begin, {needed().begin, inside.begin}).fill_(outside);
  rows_of(all, needed().begin, {inside.end, needed().end}).fill_(outside);
  return all;
}

at::Tensor RowExchange::gradient(const at::Tensor& of_joined) const {
  const auto taken = exchanged(of_joined, needed().begin, /*back=*/true);
  auto sizes = of_joined.sizes().vec();
  sizes[2] = own().size();
  const auto of_own =
      at::zeros(sizes, of_joined.options().memory_format(of_joined.suggest_memory_format()));
  const auto kept = common(own(), needed());
  rows_of(of_own, own().begin, kept).copy_(rows_of(of_joined, needed().begin, kept));
  for (size_t other = 0; other < owned_.size(); ++other)
    if (const auto rows = sent(rank_, other); !rows.empty())
      rows_of(of_own, own().begin, rows).add_(taken[other]);
  return of_own;
}

}  // namespace composer
