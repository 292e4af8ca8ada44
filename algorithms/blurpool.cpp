#include "algorithms/blurpool.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include "algorithms/parts/pooled_blur.h"
#include "base/error.h"
#include "base/log.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/network/fused_norm.h"
#include "nn/optimization/optimizer.h"

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::array<int64_t, 2> unit{1, 1};

at::Tensor depthwise(const at::Tensor& input, std::array<int64_t, 2> stride,
                     const at::Tensor& filter, int64_t most_elements = most_elements_at_once) {
  const int64_t channels = input.size(1);
  const Conv2dOptions options{.in_channels = channels,
                              .out_channels = channels,
                              .kernel = {3, 3},
                              .stride = stride,
                              .padding = unit,
                              .groups = channels,
                              .bias = false};
  const auto convolved = [&](const at::Tensor& samples) {
    return op::conv2d(samples, filter, {}, options);
  };
  const int64_t elements = op::values_a_channel(input) * channels;
  if (elements <= most_elements) return convolved(input);
  std::vector<at::Tensor> parts;
  const int64_t of_one = elements / input.size(0);
  for (const auto& part : input.split(std::max<int64_t>(most_elements / of_one, 1)))
    parts.push_back(convolved(op::converted(part, input)));
  return op::converted(at::cat(parts), parts.front());
}

// oneDNN's gradient of a strided depthwise convolution in bf16 takes 10 to 80 times its forward
// pass. The filter is symmetric, so the gradient is a forward pass over the output's gradient with
// zeros inserted.
struct StridedBlur : torch::autograd::Function<StridedBlur> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, int64_t down,
                            int64_t across, const at::Tensor& filter) {
    context->saved_data["shape"] = input.sizes().vec();
    context->saved_data["down"] = down;
    context->saved_data["across"] = across;
    context->saved_data["filter"] = filter;
    return depthwise(input, {down, across}, filter);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto shape = context->saved_data["shape"].toIntVector();
    const auto filter = context->saved_data["filter"].toTensor();
    auto spread =
        at::zeros(shape, gradients[0].options().memory_format(filter.suggest_memory_format()));
    spread.slice(2, {}, {}, context->saved_data["down"].toInt())
        .slice(3, {}, {}, context->saved_data["across"].toInt())
        .copy_(gradients[0]);
    return {depthwise(spread, unit, filter), {}, {}, {}};
  }
};

bool is_pointwise(const Conv2dOptions& options) {
  return options.kernel == unit && options.padding == std::array<int64_t, 2>{0, 0};
}

bool has_one_pass(const Pool2dOptions& options) {
  const std::array<int64_t, 2> two{2, 2}, three{3, 3};
  return options.kernel == three && options.padding == unit && options.dilation == unit &&
         (options.stride == unit || options.stride == two);
}

std::string no_effect(const BlurPool::Params& params) {
  std::string wanted;
  if (params.replace_maxpools) wanted = "max pooling";
  if (params.replace_convs)
    wanted += (wanted.empty() ? "" : " or ") + std::string("strided convolution with at least ") +
              std::to_string(params.min_channels) + " input channels";
  return "algorithms.blurpool: the model has no " +
         (wanted.empty() ? "layer it may replace" : wanted) +
         ", so blurpool would change nothing; remove it, or set "
         "algorithms.blurpool.allow_no_effect to true";
}

auto count(const std::vector<Replacement>& replacements, std::string_view kind) {
  return std::ranges::count_if(replacements,
                               [&](const Replacement& r) { return r.after.starts_with(kind); });
}

std::array<int64_t, 2> output_size(const at::Tensor& input, const Pool2dOptions& options) {
  const auto along = [&](size_t d) {
    return input.size(static_cast<int64_t>(d) + 2) + 2 * options.padding[d] -
           options.dilation[d] * (options.kernel[d] - 1);
  };
  return {along(0), along(1)};
}

/// int64 [H, W]: the index in a plane of `input` at the position of each element of the output.
at::Tensor own_indices(const at::Tensor& input, const std::array<int64_t, 2>& output) {
  const auto options = input.options().dtype(at::kLong);
  return (at::arange(output[0], options) * input.size(3)).view({-1, 1}) +
         at::arange(output[1], options);
}

/// Calls part(first sample, number of samples) for each part of the batch.
template <class Part>
void for_parts(const at::Tensor& batch, int64_t most_elements, const Part& part) {
  const int64_t samples = batch.size(0), of_one = std::max<int64_t>(batch[0].numel(), 1);
  const int64_t step = std::max<int64_t>(most_elements / of_one, 1);
  for (int64_t begin = 0; begin < samples; begin += step)
    part(begin, std::min(step, samples - begin));
}

/// Saves the offset from an output's own index to the index of the largest value.
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
      own = own_indices(input, size);
    }
    for_parts(values, most_elements, [&](int64_t begin, int64_t samples) {
      const auto [value, index] = at::max_pool2d_with_indices(
          input.narrow(0, begin, samples), options.kernel, unit, options.padding, options.dilation);
      values.narrow(0, begin, samples).copy_(value);
      if (!gradient) return;
      auto move = moves.narrow(0, begin, samples);
      at::sub_out(move, index, own);
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
    const auto own = own_indices(input, {moves.size(2), moves.size(3)});
    const auto result = at::empty_like(input, input.options(), format);
    for_parts(
        moves, context->saved_data["most_elements"].toInt(), [&](int64_t begin, int64_t samples) {
          const auto part = [&](const at::Tensor& t) { return t.narrow(0, begin, samples); };
          const auto index = (part(moves) + own).contiguous(format);
          part(result).copy_(at::max_pool2d_with_indices_backward(part(gradients[0]), part(input),
                                                                  kernel, unit, padding, dilation,
                                                                  /*ceil_mode=*/false, index));
        });
    return {result, {}, {}, {}};
  }
};

bool moves_fit(const at::Tensor& input, const Pool2dOptions& options) {
  const auto reach = [&](size_t d) { return options.dilation[d] * (options.kernel[d] - 1); };
  return reach(0) * input.size(3) + reach(1) <= std::numeric_limits<int16_t>::max();
}

}  // namespace

at::Tensor blur_filter(const at::Tensor& like) {
  const c10::InferenceMode off(false);  // training steps use a filter made during an evaluation
  const auto line = at::tensor({0.25f, 0.5f, 0.25f});
  // contiguous() would keep the strides, because with one channel they match every format.
  const auto filter =
      at::empty({like.size(1), 1, 3, 3}, like.options(), like.suggest_memory_format());
  return op::constant(filter.copy_(at::outer(line, line)));
}

at::Tensor blur(const at::Tensor& input, std::array<int64_t, 2> stride, const at::Tensor& filter,
                int64_t most_elements) {
  if (op::height(input) + 2 < 3 || input.size(3) + 2 < 3) return input;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const bool slow_gradient = !op::one_by_one() && input.is_cpu() &&
                             input.scalar_type() == at::kBFloat16 && stride != unit &&
                             !Unfused::keeps_back();
  return slow_gradient ? StridedBlur::apply(input, stride[0], stride[1], filter)
                       : depthwise(input, stride, filter, most_elements);
}

at::Tensor blur(const at::Tensor& input, std::array<int64_t, 2> stride) {
  return blur(input, stride, blur_filter(input));
}

const at::Tensor& BlurFilter::operator()(const at::Tensor& input) {
  const auto fits = [&](const at::Tensor& filter) {
    return filter.size(0) == input.size(1) && filter.scalar_type() == input.scalar_type() &&
           filter.device() == input.device() &&
           filter.suggest_memory_format() == input.suggest_memory_format();
  };
  const auto found = std::ranges::find_if(filters_, fits);
  return found != filters_.end() ? *found : filters_.emplace_back(blur_filter(input.detach()));
}

at::Tensor BlurConv2d::forward_rounded(const at::Tensor& input, const Rounder& rounder) {
  const auto stride = options().stride;
  const auto blurred = [&](const at::Tensor& given, std::array<int64_t, 2> by) {
    return blur(rounder.input(given), by, rounder.weight(filter_(given)));
  };
  if (!blur_first_) return blurred(convolve(rounder.input(input), unit), stride);
  if (is_pointwise(options())) return convolve(rounder.input(blurred(input, stride)), unit);
  return convolve(rounder.input(blurred(input, unit)), stride);
}

std::string BlurConv2d::describe() const {
  return (blur_first_ ? "BlurConv2d: blur, then " : "BlurConv2d: blur after ") + Conv2d::describe();
}

at::Tensor BlurMaxPool2d::forward(const at::Tensor& input) {
  if (has_one_pass(options()) && pooled_blur_takes(input) && !op::one_by_one() &&
      !Unfused::keeps_back())
    return pooled_blur(input, options().stride[0]);
  return forward_rounded(input, {});
}

at::Tensor BlurMaxPool2d::forward_rounded(const at::Tensor& input, const Rounder& rounder) {
  check_size(input);
  auto unstrided = options();
  unstrided.stride = unit;
  const auto codes = rounder.input(input);
  const auto pooled = input.is_cpu() || Unfused::keeps_back()
                          ? op::max_pool2d(codes, unstrided)
                          : unstrided_max_pool(codes, unstrided);
  return blur(pooled, options().stride, rounder.weight(filter_(pooled)));
}

std::string BlurMaxPool2d::describe() const {
  return "BlurMaxPool2d: blurred " + MaxPool2d::describe();
}

std::vector<Replacement> apply_blurpool(Block& model, const BlurPool::Params& params) {
  const auto choose = [&](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
    if (dynamic_cast<BlurConv2d*>(&layer) != nullptr ||
        dynamic_cast<BlurMaxPool2d*>(&layer) != nullptr)
      return nullptr;
    if (const auto* conv = dynamic_cast<Conv2d*>(&layer); conv != nullptr && params.replace_convs) {
      const auto& options = conv->options();
      if (std::ranges::max(options.stride) > 1 && options.in_channels >= params.min_channels)
        return std::make_shared<BlurConv2d>(*conv, params.blur_first);
    }
    if (const auto* pool = dynamic_cast<MaxPool2d*>(&layer);
        pool != nullptr && params.replace_maxpools)
      return std::make_shared<BlurMaxPool2d>(*pool);
    return nullptr;
  };
  auto replacements = replace_layers(model, choose);
  if (replacements.empty() && !params.allow_no_effect) throw UserError(no_effect(params));
  return replacements;
}

void BlurPool::init(State& state) {
  replacements_ = apply_blurpool(*state.model, params_);
  const auto pools = count(replacements_, "BlurMaxPool2d"),
             convs = count(replacements_, "BlurConv2d");
  log::info("blurpool: replaced " + std::to_string(pools) + " max pooling and " +
            std::to_string(convs) + " convolution layers");
  state.logger->log("blurpool/num_blurpool_layers", static_cast<double>(pools));
  state.logger->log("blurpool/num_blurconv_layers", static_cast<double>(convs));
}

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
