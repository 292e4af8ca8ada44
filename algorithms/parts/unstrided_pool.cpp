#include "algorithms/parts/unstrided_pool.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <limits>

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::array<int64_t, 2> unit{1, 1};

std::array<int64_t, 2> output_size(const at::Tensor& input, const Pool2dOptions& options) {
  const auto along = [&](size_t d) {
    return input.size(static_cast<int64_t>(d) + 2) + 2 * options.padding[d] -
           options.dilation[d] * (options.kernel[d] - 1);
  };
  return {along(0), along(1)};
}

/// int64 [H, W]: the place in a plane of `input` that each element of the output would have there.
at::Tensor own_places(const at::Tensor& input, const std::array<int64_t, 2>& output) {
  const auto options = input.options().dtype(at::kLong);
  return (at::arange(output[0], options) * input.size(3)).view({-1, 1}) +
         at::arange(output[1], options);
}

/// Calls part(first sample, samples) for one part of the batch after the other.
template <class Part>
void for_parts(const at::Tensor& batch, int64_t most_elements, const Part& part) {
  const int64_t samples = batch.size(0), of_one = std::max<int64_t>(batch[0].numel(), 1);
  const int64_t step = std::max<int64_t>(most_elements / of_one, 1);
  for (int64_t begin = 0; begin < samples; begin += step)
    part(begin, std::min(step, samples - begin));
}

/// Saves the move from an output's own place to the place of the largest value.
struct UnstridedPool : torch::autograd::Function<UnstridedPool> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const Pool2dOptions& options, int64_t most_elements, bool gradient) {
    const auto size = output_size(input, options);
    const auto format = input.suggest_memory_format();
    const auto values =
        at::empty({input.size(0), input.size(1), size[0], size[1]}, input.options(), format);
    at::Tensor moves, own;
    if (gradient) {
      moves = at::empty_like(values, values.options().dtype(at::kShort));
      own = own_places(input, size);
    }
    for_parts(values, most_elements, [&](int64_t begin, int64_t samples) {
      const auto [value, place] = at::max_pool2d_with_indices(
          input.narrow(0, begin, samples), options.kernel, unit, options.padding, options.dilation);
      values.narrow(0, begin, samples).copy_(value);
      if (!gradient) return;
      auto move = moves.narrow(0, begin, samples);
      at::sub_out(move, place, own);
    });
    if (gradient) {
      context->save_for_backward({input, moves});
      context->saved_data["kernel"] = options.kernel;
      context->saved_data["padding"] = options.padding;
      context->saved_data["dilation"] = options.dilation;
      context->saved_data["most_elements"] = most_elements;
    }
    return values;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &moves = saved[1];
    const auto numbers = [&](const char* name) { return context->saved_data[name].toIntVector(); };
    const auto kernel = numbers("kernel"), padding = numbers("padding"),
               dilation = numbers("dilation");
    const auto format = input.suggest_memory_format();
    const auto own = own_places(input, {moves.size(2), moves.size(3)});
    const auto result = at::empty_like(input, input.options(), format);
    for_parts(
        moves, context->saved_data["most_elements"].toInt(), [&](int64_t begin, int64_t samples) {
          const auto part = [&](const at::Tensor& t) { return t.narrow(0, begin, samples); };
          const auto place = (part(moves) + own).contiguous(format);
          part(result).copy_(at::max_pool2d_with_indices_backward(part(gradients[0]), part(input),
                                                                  kernel, unit, padding, dilation,
                                                                  /*ceil_mode=*/false, place));
        });
    return {result, {}, {}, {}};
  }
};

bool moves_fit(const at::Tensor& input, const Pool2dOptions& options) {
  const auto reach = [&](size_t d) { return options.dilation[d] * (options.kernel[d] - 1); };
  return reach(0) * input.size(3) + reach(1) <= std::numeric_limits<int16_t>::max();
}

}  // namespace

at::Tensor unstrided_max_pool(const at::Tensor& input, const Pool2dOptions& options,
                              int64_t most_elements) {
  if (op::one_by_one() || input.numel() == 0 || !moves_fit(input, options)) {
    auto unstrided = options;
    unstrided.stride = unit;
    return op::max_pool2d(input, unstrided);
  }
  const bool gradient = at::GradMode::is_enabled() && input.requires_grad();
  return UnstridedPool::apply(input, options, most_elements, gradient);
}

}  // namespace composer
