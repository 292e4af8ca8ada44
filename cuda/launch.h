// What is asked of sources that nvcc compiles, which know no tensors, by all that know these.
#pragma once

namespace composer::cuda {

/// Of the numbers that kernels take.
enum class NumberType { fp32, fp16, bf16 };

/// An error where the kernels were not compiled for the current device.
int kernels_unavailable();

}  // namespace composer::cuda
