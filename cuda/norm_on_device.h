// Fused batch normalisation of tensors by the kernels for GPUs.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <array>
#include <utility>

#include "cuda/norm_passes.h"
#include "cuda/type_of.h"
#include "nn/network/norm_call.h"

namespace composer::cuda {

inline constexpr uintptr_t alignment = 16;

inline NormFollows follows(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return NormFollows::relu;
    case Activation::gelu:
      return NormFollows::gelu;
    case Activation::none:
      break;
  }
  return NormFollows::nothing;
}

inline bool aligned(const at::Tensor& tensor) {
  return !tensor.defined() || reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % alignment == 0;
}

/// The images in NHWC, aligned for the kernels.
inline at::Tensor in_rows(const at::Tensor& images) {
  const auto rows = images.contiguous(at::MemoryFormat::ChannelsLast);
  return aligned(rows) ? rows : rows.clone();
}

inline const void* read(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}
inline void* written(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr() : nullptr;
}
inline const float* read_numbers(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}
inline float* written_numbers(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr;
}

inline NormParameters parameters(const at::Tensor& weight, const at::Tensor& bias,
                                 const at::Tensor& running_mean, const at::Tensor& running_var,
                                 const BatchNormOptions& options) {
  return {read_numbers(weight),
          read_numbers(bias),
          written_numbers(running_mean),
          written_numbers(running_var),
          static_cast<float>(options.eps),
          static_cast<float>(options.momentum)};
}

/// The pool of images [N, C, H, W].
inline NormPool pool_of(const at::Tensor& images, const Pool2dOptions& options) {
  NormPool pool{};
  for (const int axis : {0, 1}) {
    const auto kernel = options.kernel[axis], stride = options.stride[axis],
               padding = options.padding[axis], size = images.size(2 + axis);
    pool.input_size[axis] = static_cast<int>(size);
    pool.output_size[axis] = static_cast<int>((size + 2 * padding - kernel) / stride + 1);
    pool.kernel[axis] = static_cast<int>(kernel);
    pool.stride[axis] = static_cast<int>(stride);
    pool.padding[axis] = static_cast<int>(padding);
  }
  return pool;
}

/// Why the kernels do not compute this pool of the images; empty where they do.
inline std::string refusal_of_pool(const at::Tensor& images, const Pool2dOptions& options) {
  const auto [kernel, stride, padding, dilation, ceil_mode] = options;
  constexpr int64_t most_places = 256, most_rows = int64_t{1} << 31;
  if (ceil_mode || dilation != std::array<int64_t, 2>{1, 1}) return "a pool with gaps or ceil_mode";
  if (kernel[0] * kernel[1] > most_places) return "a pool of more than 256 pixels";
  int64_t rows = images.size(0);
  for (const size_t axis : {0, 1}) {
    const auto padded = images.size(2 + static_cast<int64_t>(axis)) + 2 * padding[axis];
    if (kernel[axis] < 1 || stride[axis] < 1 || padding[axis] < 0 ||
        2 * padding[axis] > kernel[axis] || padded < kernel[axis])
      return "a pool that does not fit";
    rows *= padded;
  }
  return rows < most_rows ? "" : "too many pixels for a pool";
}

/// An uninitialised float32 tensor on the images' device.
inline at::Tensor numbers(const at::Tensor& images, at::IntArrayRef size) {
  return at::empty(size, at::TensorOptions(images.device()).dtype(at::kFloat));
}

/// The partial results of the pass that is queued next.
inline at::Tensor partial(const at::Tensor& images, int64_t rows, int channels) {
  return numbers(images, {static_cast<int64_t>(partial_size(rows, channels))});
}

/// `Device` has, static: refusal(at::Device), why it cannot run the kernels; forward() and
/// backward(), which queue the passes of norm_passes.h on a device.
template <class Device>
class NormOnDevice : public NormKernels {
 public:
  std::string refusal(const NormCall& call) const override {
    const auto& input = call.input;
    if (!number_type(input.scalar_type())) return std::string(at::toString(input.scalar_type()));
    if (input.dim() != 4 || input.numel() == 0) return "no images";
    if (!input.is_contiguous(at::MemoryFormat::ChannelsLast)) return "NCHW on a GPU";
    if (input.size(1) % norm_width != 0) return "channels that are no multiple of 8";
    if (!aligned(input) || !aligned(call.residual)) return "images at an odd place in memory";
    const auto& second = call.residual_norm;
    const bool two = call.has_residual_norm();
    if (!call.running_mean.defined() || !call.running_var.defined() ||
        (two && !second.running_var.defined()))
      return "no running statistics";
    for (const auto* parameter :
         {&call.weight, &call.bias, &call.running_mean, &call.running_var, &second.weight,
          &second.bias, &second.running_mean, &second.running_var})
      if (parameter->defined() &&
          (parameter->scalar_type() != at::kFloat || parameter->device() != input.device() ||
           !parameter->is_contiguous() || parameter->sizes() != input.sizes().slice(1, 1)))
        return "parameters that are not float32 [C]";
    if (two && (call.activation == Activation::gelu || call.pool ||
                second.options.training != call.options.training))
      return "a residual's norm with GELU, a pool or other statistics";
    if (call.pool && call.residual.defined()) return "a pool with a residual";
    if (call.pool)
      if (auto refusal = refusal_of_pool(input, *call.pool); !refusal.empty()) return refusal;
    return Device::refusal(input.device());
  }

  NormOutput forward(const NormCall& call) const override {
    const auto& input = call.input;
    NormForwardArguments given{};
    given.type = *number_type(input.scalar_type());
    given.channels = static_cast<int>(input.size(1));
    given.rows = input.numel() / input.size(1);
    given.follows = follows(call.activation);
    given.input = read(input), given.residual = read(call.residual);
    given.norm =
        parameters(call.weight, call.bias, call.running_mean, call.running_var, call.options);
    given.training = call.options.training;
    const bool two = call.has_residual_norm();
    if (two) {
      const auto& [weight, bias, mean, var, options] = call.residual_norm;
      given.with = NormWith::residual_norm;
      given.residual_norm = parameters(weight, bias, mean, var, options);
    }
    if (call.pool) given.with = NormWith::pool, given.pool = pool_of(input, *call.pool);
    const auto& [height, width] = given.pool.output_size;
    const auto sums = partial(input, given.rows, given.channels);
    NormOutput result{call.pool ? at::empty({input.size(0), input.size(1), height, width},
                                            input.options(), at::MemoryFormat::ChannelsLast)
                                : at::empty_like(input),
                      numbers(input, {two ? 8 : 4, input.size(1)})};
    const auto bytes = input.options().dtype(at::kByte);
    if (call.pool && call.with_marks)
      result.marks = at::empty({result.output.numel()}, bytes);
    else if (call.with_marks && call.residual.defined() && call.activation == Activation::relu)
      result.marks = at::empty({input.numel() / norm_width}, bytes);
    given.partial = written_numbers(sums);
    given.statistics = written_numbers(result.statistics);
    given.output = written(result.output);
    given.marks = static_cast<uint8_t*>(written(result.marks));
    Device::forward(given, input.device());
    return result;
  }

  NormGradients backward(const NormBackward& call) const override {
    auto gradient = in_rows(call.gradient);
    auto added = call.added.defined() ? in_rows(call.added) : at::Tensor();
    if (call.pool && added.defined()) gradient = gradient + std::exchange(added, {});
    const auto& like = call.pool ? call.input : gradient;
    NormBackwardArguments given{};
    given.type = *number_type(gradient.scalar_type());
    given.channels = static_cast<int>(like.size(1));
    given.rows = like.numel() / like.size(1);
    given.follows = follows(call.activation);
    given.with = call.residual_norm ? NormWith::residual_norm
                 : call.pool        ? NormWith::pool
                                    : NormWith::nothing;
    if (call.pool) given.pool = pool_of(like, *call.pool);
    given.training = call.training;
    given.gradient = read(gradient), given.added = read(added), given.input = read(call.input);
    given.marks = static_cast<const uint8_t*>(read(call.marks));
    given.residual = read(call.residual), given.output = read(call.output);
    given.statistics = read_numbers(call.statistics);
    const auto sums = partial(like, given.rows, given.channels);
    const auto line = numbers(like, {call.residual_norm ? 4 : 2, like.size(1)});
    given.partial = written_numbers(sums), given.line = written_numbers(line);
    const auto asked = [&](bool wanted, auto&& make) { return wanted ? make() : at::Tensor(); };
    const auto image = [&] { return at::empty_like(like); };
    const auto vector = [&] { return numbers(like, {like.size(1)}); };
    NormGradients result{asked(call.for_input, image),
                         {},
                         asked(call.for_weight, vector),
                         asked(call.for_bias, vector)};
    if (call.residual_norm) {
      result.residual = asked(call.for_residual, image);
      result.residual_weight = asked(call.for_residual_weight, vector);
      result.residual_bias = asked(call.for_residual_bias, vector);
      given.for_residual = written(result.residual);
      given.for_residual_weight = written_numbers(result.residual_weight);
      given.for_residual_bias = written_numbers(result.residual_bias);
    } else if (added.defined()) {
      given.before = written(added);
      result.residual = asked(call.for_residual, [&] { return added; });
    } else if (call.for_residual) {
      const bool as_is = call.activation == Activation::none;
      result.residual = as_is ? gradient : image();
      if (!as_is) given.before = written(result.residual);
    }
    given.for_input = written(result.input);
    given.for_weight = written_numbers(result.weight);
    given.for_bias = written_numbers(result.bias);
    Device::backward(given, gradient.device());
    return result;
  }
};

}  // namespace composer::cuda
