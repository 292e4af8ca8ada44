// The type of a tensor's numbers as kernels know it.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "cuda/launch.h"

namespace composer::cuda {

/// Nothing for a type that the kernels do not take.
inline std::optional<NumberType> number_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return NumberType::fp32;
    case at::kHalf:
      return NumberType::fp16;
    case at::kBFloat16:
      return NumberType::bf16;
    default:
      return std::nullopt;
  }
}

}  // namespace composer::cuda
