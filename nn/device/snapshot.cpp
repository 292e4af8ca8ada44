#include "nn/device/snapshot.h"

#include <ATen/core/grad_mode.h>

namespace composer {

Snapshot::Snapshot(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& tensor : tensors) {
    auto& kept = by_type_[tensor.scalar_type()];
    kept.tensors.push_back(tensor);
    kept.values.push_back(at::empty_like(tensor));
  }
  for (auto& [type, kept] : by_type_) at::_foreach_copy_(kept.values, kept.tensors);
}

void Snapshot::restore() {
  const at::NoGradGuard no_grad;
  for (auto& [type, kept] : by_type_) at::_foreach_copy_(kept.tensors, kept.values);
}

}  // namespace composer
