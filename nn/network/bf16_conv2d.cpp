#include "nn/network/bf16_conv2d.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "nn/device/optional_tensor.h"
#include "nn/network/autograd_node.h"
#include "nn/network/bf16_copy.h"
#include "nn/network/fused_norm.h"
#include "nn/network/weight_gradient.h"

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Saved from the forward to the backward pass.
struct ForwardPass {
  Conv2dOptions options;
  std::vector<int64_t> input_sizes;
  bool bias;
  std::optional<NormSource> source;  ///< recomputes the images, which are not saved then
};

/// Whether the convolution reads only every stride-th pixel.
bool subsamples(const Conv2dOptions& options) {
  const std::array<int64_t, 2> one{1, 1}, none{0, 0};
  return options.kernel == one && options.padding == none && options.stride != one;
}

at::Tensor subsampled(const at::Tensor& images, const Conv2dOptions& options) {
  return images.slice(2, 0, std::nullopt, options.stride[0])
      .slice(3, 0, std::nullopt, options.stride[1]);
}

Conv2dOptions without_stride(Conv2dOptions options) {
  options.stride = {1, 1};
  return options;
}

at::Tensor convolved(const at::Tensor& images, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias, const Conv2dOptions& options) {
  return at::conv2d(images, weight, bias, options.stride, options.padding, options.dilation,
                    options.groups);
}

at::Tensor gradient_of_input(const at::Tensor& gradient, const at::Tensor& images,
                             const at::Tensor& weight, const Conv2dOptions& options) {
  return std::get<0>(at::convolution_backward(gradient, images, weight, at::OptionalIntArrayRef(),
                                              options.stride, options.padding, options.dilation,
                                              /*transposed=*/false, /*output_padding=*/{0, 0},
                                              options.groups, {true, false, false}));
}

struct Bf16Conv2d : torch::autograd::Function<Bf16Conv2d> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor&,
                            const at::Tensor& rounded, const std::optional<at::Tensor>& bias,
                            const Conv2dOptions& options) {
    const bool fewer = subsamples(options);
    const auto images =
        fewer ? subsampled(input, options).contiguous(input.suggest_memory_format()) : input;
    auto source = fewer ? std::nullopt : NormSource::of(input);
    context->save_for_backward({source ? at::Tensor() : images, rounded});
    context->saved_data["forward"] =
        held(ForwardPass{options, input.sizes().vec(), bias.has_value(), std::move(source)});
    return convolved(images, rounded, bias, fewer ? without_stride(options) : options);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& rounded = saved[1];
    const auto& forward = held_in<ForwardPass>(*context, "forward");
    const auto images = forward.source ? forward.source->output() : saved[0];
    const bool fewer = subsamples(forward.options);
    const auto options = fewer ? without_stride(forward.options) : forward.options;
    const auto order = images.suggest_memory_format();
    const auto gradient = gradients[0].to(at::kBFloat16).contiguous(order);

    at::Tensor of_input, of_weight, of_bias;
    if (context->needs_input_grad(0)) {
      of_input = gradient_of_input(gradient, images, rounded, options);
      if (fewer) of_input = spread(of_input, forward.input_sizes, forward.options);
    }
    if (context->needs_input_grad(1))
      of_weight = weight_gradient(images.contiguous(at::MemoryFormat::ChannelsLast),
                                  gradient.contiguous(at::MemoryFormat::ChannelsLast), options,
                                  *tile_instructions());
    if (forward.bias && context->needs_input_grad(3))
      of_bias = at::sum(gradient, {0, 2, 3}, /*keepdim=*/false, at::kFloat);
    return differentiable_once({of_input, of_weight, {}, of_bias, {}}, "convolutions in bf16",
                               "compute step by step (nn/network/fused_norm.h: Unfused)");
  }

  /// The gradient of all pixels; it is 0 for pixels that were not read.
  static at::Tensor spread(const at::Tensor& gradient, at::IntArrayRef sizes,
                           const Conv2dOptions& options) {
    auto all = at::empty(sizes, gradient.options(), gradient.suggest_memory_format()).zero_();
    subsampled(all, options).copy_(gradient);
    return all;
  }
};

}  // namespace

bool bf16_conv2d_takes(const at::Tensor& input, const at::Tensor& weight,
                       const Conv2dOptions& options) {
  return input.is_cpu() && input.dim() == 4 && is_rounded_by_autocast(weight) &&
         !op::one_by_one() && tile_instructions() && weight_gradient_takes(options) &&
         input.is_contiguous(input.suggest_memory_format()) && !Unfused::keeps_back();
}

at::Tensor bf16_conv2d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& rounded,
                       const at::Tensor& bias, const Conv2dOptions& options) {
  return Bf16Conv2d::apply(input.to(at::kBFloat16), weight, rounded, if_defined(bias), options);
}

}  // namespace composer
