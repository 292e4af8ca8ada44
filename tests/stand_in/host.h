// Tensors of the stand-in's GPUs as those of the CPU.
#pragma once

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

namespace composer::stand_in {

/// The same memory as a tensor of the CPU.
inline at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  const auto options = tensor.options().device(at::kCPU);
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [tensor](void*) {}, options);
}

}  // namespace composer::stand_in
