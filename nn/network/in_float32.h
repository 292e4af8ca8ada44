// What losses and metrics are computed in.
#pragma once

#include <ATen/core/Tensor.h>

namespace composer {

/// float32, or float64 where `outputs` are.
inline at::Tensor in_float32(const at::Tensor& outputs) {
  return outputs.scalar_type() == at::kDouble ? outputs : outputs.to(at::kFloat);
}

}  // namespace composer
