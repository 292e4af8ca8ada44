// The interface of the sources that nvcc compiles, which know no tensors.
#pragma once

namespace composer::cuda {

/// The types of numbers that kernels take.
enum class NumberType { fp32, fp16, bf16 };

/// Calls visit.operator()<T>() with the C++ type of `type`. Fp16, Bf16: the compiler's 16-bit
/// types.
template <class Fp16, class Bf16, class Visit>
void with_type(NumberType type, const Visit& visit) {
  switch (type) {
    case NumberType::fp32:
      return visit.template operator()<float>();
    case NumberType::fp16:
      return visit.template operator()<Fp16>();
    case NumberType::bf16:
      return visit.template operator()<Bf16>();
  }
}

/// The CUDA error if the kernels were not compiled for the current device; else cudaSuccess.
int kernels_unavailable();

}  // namespace composer::cuda
