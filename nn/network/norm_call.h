// Batch normalisation, residual and activation as one operator: its arguments, and its kernels on
// one device.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "nn/network/activation.h"
#include "nn/network/operations.h"

namespace composer {

/// The parameters of a batch norm: tensors [C]; weight and bias may be undefined.
struct NormLayerParameters {
  at::Tensor weight, bias, running_mean, running_var;
  BatchNormOptions options;
};

/// activation(batch norm of input + residual). In training the norm uses the batch's mean and
/// variance and updates the running ones (the variance as an unbiased estimate); else it uses the
/// running ones.
struct NormCall {
  at::Tensor input;                      ///< [N, C, H, W]
  at::Tensor residual{};                 ///< like the input, or undefined
  at::Tensor weight, bias;               ///< [C], or undefined: 1 and 0
  at::Tensor running_mean, running_var;  ///< [C]
  BatchNormOptions options;
  Activation activation = Activation::none;
  /// The residual is first normalised by these, if they have running statistics.
  NormLayerParameters residual_norm{};
  std::optional<Pool2dOptions> pool{};  ///< a max pool after the activation
  bool with_marks = false;              ///< backward() will want NormOutput::marks

  bool has_residual_norm() const { return residual_norm.running_mean.defined(); }
};

struct NormOutput {
  at::Tensor output;      ///< in the input's type and layout
  at::Tensor statistics;  ///< for the same kernels' backward()
  /// With ReLU and a residual, or with a pool, for the same kernels' backward(), which does not
  /// read the output then; undefined where they do not make it.
  at::Tensor marks{};
};

/// The arguments of a backward pass.
struct NormBackward {
  at::Tensor gradient;  ///< gradient of the output, in the input's type and layout
  /// A gradient to be added to `gradient`, alike, or undefined; its memory may be overwritten.
  at::Tensor added;
  at::Tensor input;       ///< undefined where neither it nor a value recomputed from it is needed
  at::Tensor residual;    ///< with GELU or a norm of the residual; else undefined
  at::Tensor output;      ///< with ReLU and a residual, without marks; else undefined
  at::Tensor marks;       ///< NormOutput::marks
  at::Tensor statistics;  ///< NormOutput::statistics
  at::Tensor weight;      ///< see NormCall
  at::Tensor bias;  ///< see NormCall; only where the value before the activation is recomputed
  bool with_residual = false;
  bool residual_norm = false;  ///< NormCall::has_residual_norm()
  std::optional<Pool2dOptions> pool{};
  bool training = false;
  Activation activation = Activation::none;
  bool for_input = false, for_weight = false, for_bias = false, for_residual = false;
  bool for_residual_weight = false, for_residual_bias = false;
};

/// A gradient that was not asked for is undefined.
struct NormGradients {
  at::Tensor input, residual, weight, bias, residual_weight{}, residual_bias{};
};

/// The operator's kernels on one device. With ReLU a value whose output is 0 has no gradient; NaN
/// has one.
class NormKernels {
 public:
  virtual ~NormKernels() = default;

  /// Why the kernels do not compute this call, for instance "float64"; empty where they do.
  virtual std::string refusal(const NormCall& call) const = 0;

  /// Computes a call that is not refused and whose residual has the input's type and layout.
  virtual NormOutput forward(const NormCall& call) const = 0;
  virtual NormGradients backward(const NormBackward& call) const = 0;
};

/// float32 and bfloat16 images in dense NCHW or NHWC, with float32 parameters. The result depends
/// on the processor's instructions, not on the number of threads.
const NormKernels& cpu_norm_kernels();

/// The output of a call without a residual, from the statistics of its forward(), with the same
/// bits.
at::Tensor cpu_norm_output(const at::Tensor& input, const at::Tensor& statistics,
                           const at::Tensor& weight, const at::Tensor& bias, Activation activation);

}  // namespace composer

/// The function in libcomposer_cuda.so: kernels for the current device.
using OpenNormKernels = const composer::NormKernels*();
extern "C" OpenNormKernels composer_norm_kernels;
