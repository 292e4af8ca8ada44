// Tensors that may be undefined, in the form that LibTorch's operators take.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace composer {

inline std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace composer
