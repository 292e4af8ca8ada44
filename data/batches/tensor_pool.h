// Memory of batches that is used again.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace composer {

/// Functions may be called by several threads at once.
class TensorPool {
 public:
  /// kept: free blocks that stay for the next tensors, at most. pinned: page-locked tensors.
  TensorPool(size_t kept, bool pinned);

  /// Uninitialised. Its memory comes back when the last tensor that shares it goes, in whatever
  /// thread, even after the pool.
  at::Tensor reused(at::IntArrayRef shape, at::ScalarType type);
  /// Uninitialised, with memory of its own.
  at::Tensor fresh(at::IntArrayRef shape, at::ScalarType type) const;

  /// Lets go of the free blocks.
  void clear();

 private:
  struct Shelf;

  std::shared_ptr<Shelf> shelf_;
  bool pinned_;
};

}  // namespace composer
