// Copies of tensors in host memory, for what reads them while the originals change.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

namespace composer {

/// The memory is kept from one time to the next, and pinned where the tensors are on a GPU.
class HostCopies {
 public:
  /// Puts a copy in the place of each tensor. The copies of the last time are overwritten. Those
  /// from a GPU are under way on its current stream until wait() has returned.
  void take(const std::vector<at::Tensor*>& tensors);
  /// Any thread may call it.
  void wait() const;

 private:
  std::vector<at::Tensor> kept_;
  std::shared_ptr<void> copied_;  ///< a device event, or null
};

}  // namespace composer
