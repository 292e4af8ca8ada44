#include "composer/network/norm_layer.h"

namespace composer {

at::Tensor followed_in_place(at::Tensor output, const at::Tensor& residual, Activation activation) {
  if (residual.defined()) output.add_(residual);
  switch (activation) {
    case Activation::none:
      return output;
    case Activation::relu:
      return output.relu_();
    case Activation::gelu:
      return at::gelu(output);
  }
  return output;
}

at::Tensor followed(const at::Tensor& output, const at::Tensor& residual, Activation activation) {
  if (residual.defined()) return followed_in_place(output + residual, {}, activation);
  return activation == Activation::relu ? output.relu() : followed_in_place(output, {}, activation);
}

at::Tensor NormLayer::forward(const at::Tensor& input, const at::Tensor& residual,
                              Activation activation) {
  return followed_in_place(normalize(input), residual, activation);
}

}  // namespace composer
