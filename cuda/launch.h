// What is asked of sources that nvcc compiles, which know no tensors, by all that know these.
#pragma once

namespace composer::cuda {

/// Of the numbers that kernels take.
enum class NumberType { fp32, fp16, bf16 };

/// visit.operator()<T>() with the C++ type of these numbers. Fp16, Bf16: the compiler's.
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

/// An error where the kernels were not compiled for the current device.
int kernels_unavailable();

}  // namespace composer::cuda
