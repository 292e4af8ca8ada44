// Batch normalisation with what follows it, as one operator: what is computed, and who computes it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "nn/network/activation.h"
#include "nn/network/operations.h"

namespace composer {

/// activation(batch norm of input + residual). In training the norm is by the batch's own mean and
/// variance, which the running ones take up (the variance as an unbiased estimate); else by the
/// running ones.
struct NormCall {
  at::Tensor input;                      ///< [N, C, H, W]
  at::Tensor residual;                   ///< likewise, or undefined: none
  at::Tensor weight, bias;               ///< [C], or undefined: 1 and 0
  at::Tensor running_mean, running_var;  ///< [C]
  BatchNormOptions options;
  Activation activation = Activation::none;
};

struct NormOutput {
  at::Tensor output;      ///< of the input's type and layout
  at::Tensor statistics;  ///< [2, C], for the same kernels' backward()
};

/// What a backward pass gets and what it is to compute.
struct NormBackward {
  at::Tensor gradient;    ///< the output's, of the input's type and layout
  at::Tensor added;       ///< likewise, to be added to it, or undefined; its memory is taken over
  at::Tensor input;       ///< undefined where neither it nor what is recomputed of it is needed
  at::Tensor residual;    ///< where there was one and the activation is GELU, else undefined
  at::Tensor output;      ///< where there was a residual and the activation is ReLU, else undefined
  at::Tensor statistics;  ///< of NormOutput
  at::Tensor weight;      ///< as in NormCall
  at::Tensor bias;        ///< likewise, where what stood before the activation is recomputed
  bool with_residual = false;
  bool training = false;
  Activation activation = Activation::none;
  bool for_input = false, for_weight = false, for_bias = false, for_residual = false;
};

/// Undefined where not asked for.
struct NormGradients {
  at::Tensor input, residual, weight, bias;
};

/// The operator's kernels on one device. A value whose output is 0 has no gradient with ReLU; one
/// that is no number has.
class NormKernels {
 public:
  virtual ~NormKernels() = default;

  /// Why they do not compute this, for instance "float64"; empty where they do.
  virtual std::string refusal(const NormCall& call) const = 0;

  /// A call that is not refused, whose residual has the input's type and layout.
  virtual NormOutput forward(const NormCall& call) const = 0;
  virtual NormGradients backward(const NormBackward& call) const = 0;
};

/// float32 and bfloat16 images in NCHW or NHWC without gaps, by float32 parameters. The result
/// depends on the processor's instructions, not on the number of threads.
const NormKernels& cpu_norm_kernels();

/// The output of such a call without a residual, by the statistics of its forward(): the same bits.
at::Tensor cpu_norm_output(const at::Tensor& input, const at::Tensor& statistics,
                           const at::Tensor& weight, const at::Tensor& bias, Activation activation);

}  // namespace composer

/// What cuda/ has for it: kernels for the current device.
using OpenNormKernels = const composer::NormKernels*();
extern "C" OpenNormKernels composer_norm_kernels;
