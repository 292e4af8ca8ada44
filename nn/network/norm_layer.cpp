#include "nn/network/norm_layer.h"

#include "nn/network/operations.h"

namespace composer {

at::Tensor followed_in_place(at::Tensor output, const at::Tensor& residual, Activation activation) {
  if (residual.defined()) op::add_(output, residual);
  switch (activation) {
    case Activation::none:
      return output;
    case Activation::relu:
      return op::relu_(output);
    case Activation::gelu:
      return op::gelu(output);
  }
  return output;
}

at::Tensor followed(const at::Tensor& output, const at::Tensor& residual, Activation activation) {
  if (residual.defined()) return followed_in_place(op::add(output, residual), {}, activation);
  return activation == Activation::relu ? op::relu(output)
                                        : followed_in_place(output, {}, activation);
}

at::Tensor NormLayer::forward(const at::Tensor& input, const at::Tensor& residual,
                              Activation activation) {
  return followed_in_place(normalize(input), residual, activation);
}

}  // namespace composer
