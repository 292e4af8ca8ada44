// Fused batch normalisation on GPUs.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/device_code.h"
#include "cuda/norm_launch.h"
#include "cuda/type_of.h"
#include "nn/network/norm_call.h"

namespace composer::cuda {
namespace {

constexpr int64_t channels_at_once = 8;
constexpr uintptr_t alignment = 16;

NormFollows follows(Activation activation) {
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

bool aligned(const at::Tensor& tensor) {
  return !tensor.defined() || reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % alignment == 0;
}

/// The images in NHWC, aligned for the kernels.
at::Tensor in_rows(const at::Tensor& images) {
  const auto rows = images.contiguous(at::MemoryFormat::ChannelsLast);
  return aligned(rows) ? rows : rows.clone();
}

const void* read(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}
void* written(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr() : nullptr;
}
const float* read_numbers(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}
float* written_numbers(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr;
}

/// An uninitialised float32 tensor on the images' device.
at::Tensor numbers(const at::Tensor& images, at::IntArrayRef size) {
  return at::empty(size, at::TensorOptions(images.device()).dtype(at::kFloat));
}

/// The partial results of the pass that is queued next.
at::Tensor partial(const at::Tensor& images, int64_t rows, int channels) {
  return numbers(images, {static_cast<int64_t>(norm_partial_size(rows, channels))});
}

class CudaNormKernels : public NormKernels {
 public:
  std::string refusal(const NormCall& call) const override {
    const auto& input = call.input;
    if (!number_type(input.scalar_type())) return std::string(at::toString(input.scalar_type()));
    if (input.dim() != 4 || input.numel() == 0) return "no images";
    if (!input.is_contiguous(at::MemoryFormat::ChannelsLast)) return "NCHW on a GPU";
    if (input.size(1) % channels_at_once != 0) return "channels that are no multiple of 8";
    if (!aligned(input) || !aligned(call.residual)) return "images at an odd place in memory";
    for (const auto& parameter : {call.weight, call.bias, call.running_mean, call.running_var})
      if (parameter.defined() &&
          (parameter.scalar_type() != at::kFloat || !parameter.is_contiguous()))
        return "parameters that are not float32";
    return refusal_of(input.device());
  }

  NormOutput forward(const NormCall& call) const override {
    const auto& input = call.input;
    const c10::cuda::CUDAGuard device(input.device());
    NormForwardArguments given{};
    given.type = *number_type(input.scalar_type());
    given.channels = static_cast<int>(input.size(1));
    given.rows = input.numel() / input.size(1);
    given.follows = follows(call.activation);
    given.input = read(input), given.residual = read(call.residual);
    given.weight = read_numbers(call.weight), given.bias = read_numbers(call.bias);
    given.running_mean = written_numbers(call.running_mean);
    given.running_var = written_numbers(call.running_var);
    given.eps = static_cast<float>(call.options.eps);
    given.momentum = static_cast<float>(call.options.momentum);
    given.training = call.options.training;
    const auto sums = partial(input, given.rows, given.channels);
    const bool marks =
        call.with_marks && call.residual.defined() && call.activation == Activation::relu;
    const NormOutput result{
        at::empty_like(input), numbers(input, {4, input.size(1)}),
        marks ? at::empty({input.numel() / channels_at_once}, input.options().dtype(at::kByte))
              : at::Tensor()};
    given.partial = written_numbers(sums);
    given.statistics = written_numbers(result.statistics);
    given.output = written(result.output);
    given.marks = static_cast<uint8_t*>(written(result.marks));
    check(norm_forward(given, c10::cuda::getCurrentCUDAStream().stream()));
    return result;
  }

  NormGradients backward(const NormBackward& call) const override {
    const auto gradient = in_rows(call.gradient);
    const auto added = call.added.defined() ? in_rows(call.added) : at::Tensor();
    const c10::cuda::CUDAGuard device(gradient.device());
    NormBackwardArguments given{};
    given.type = *number_type(gradient.scalar_type());
    given.channels = static_cast<int>(gradient.size(1));
    given.rows = gradient.numel() / gradient.size(1);
    given.follows = follows(call.activation);
    given.training = call.training;
    given.gradient = read(gradient), given.added = read(added), given.input = read(call.input);
    given.marks = static_cast<const uint8_t*>(read(call.marks));
    given.residual = read(call.residual), given.output = read(call.output);
    given.statistics = read_numbers(call.statistics);
    const auto sums = partial(gradient, given.rows, given.channels);
    const auto line = numbers(gradient, {2, gradient.size(1)});
    given.partial = written_numbers(sums), given.line = written_numbers(line);
    const bool as_is = call.activation == Activation::none && !added.defined();
    const auto asked = [&](bool wanted, auto&& make) { return wanted ? make() : at::Tensor(); };
    const auto image = [&] { return at::empty_like(gradient); };
    const auto vector = [&] { return numbers(gradient, {gradient.size(1)}); };
    const auto before = added.defined() ? added : asked(call.for_residual && !as_is, image);
    NormGradients result{asked(call.for_input, image),
                         call.for_residual ? (as_is ? gradient : before) : at::Tensor(),
                         asked(call.for_weight, vector), asked(call.for_bias, vector)};
    given.for_input = written(result.input), given.before = written(before);
    given.for_weight = written_numbers(result.weight);
    given.for_bias = written_numbers(result.bias);
    check(norm_backward(given, c10::cuda::getCurrentCUDAStream().stream()));
    return result;
  }

 private:
  static void check(int error) { C10_CUDA_CHECK(static_cast<cudaError_t>(error)); }
};

}  // namespace
}  // namespace composer::cuda

extern "C" const composer::NormKernels* composer_norm_kernels() {
  static const composer::cuda::CudaNormKernels kernels;
  return &kernels;
}
