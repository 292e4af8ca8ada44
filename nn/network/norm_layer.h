// Normalisation together with what follows it in a block, so that one kernel may compute all of it.
#pragma once

#include <string>

#include "nn/network/activation.h"
#include "nn/network/layer.h"

namespace composer {

class NormLayer : public Layer {
 public:
  /// activation(normalize(input) + residual). residual: [N, C, ...] as the output, or undefined for
  /// none. What overrides this computes the same in fewer passes.
  virtual at::Tensor forward(const at::Tensor& input, const at::Tensor& residual,
                             Activation activation);

  /// Why no operator computes it together with what follows it; empty where its input decides
  /// (fused_norm.h).
  virtual std::string why_separate() const { return "there is no operator for it"; }

  at::Tensor forward(const at::Tensor& input) final { return forward(input, {}, Activation::none); }

 protected:
  /// The norm by itself: a new tensor, which the sum and the activation overwrite, so its gradient
  /// may not need it.
  virtual at::Tensor normalize(const at::Tensor& input) = 0;
};

/// activation(output + residual), `output` and `residual` as they were.
at::Tensor followed(const at::Tensor& output, const at::Tensor& residual, Activation activation);

/// The same in place of `output` as far as the activation has such a form.
at::Tensor followed_in_place(at::Tensor output, const at::Tensor& residual, Activation activation);

}  // namespace composer
