// A pool of memory for batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace composer {

/// Functions may be called by several threads at once.
class TensorPool {
 public:
  /// kept: most free blocks to keep for later tensors. pinned: tensors are page-locked.
  TensorPool(size_t kept, bool pinned);

  /// An uninitialised tensor. Its memory returns to the pool when the last tensor that shares it is
  /// destroyed, on any thread, even after the pool.
  at::Tensor reused(at::IntArrayRef shape, at::ScalarType type);
  /// An uninitialised tensor with memory of its own.
  at::Tensor fresh(at::IntArrayRef shape, at::ScalarType type) const;

  /// Frees the free blocks.
  void clear();

 private:
  struct Shelf;

  std::shared_ptr<Shelf> shelf_;
  bool pinned_;
};

}  // namespace composer
