// The Loader of all image sets, and the memory of its batches.
#pragma once

#include <memory>

#include "composer/loop/loader.h"
#include "data/loading/batch_loader.h"

namespace composer {

/// A pool of memory for batches. Functions may be called by several threads at once.
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

/// The samples are chosen_rows (data/samples/order.h) of the source. Throws UserError when there
/// are none, or too few: for a whole batch with drop_last, for the ranks in a batch of training.
std::unique_ptr<Loader> make_image_loader(std::shared_ptr<Source> source,
                                          ImageLoaderOptions options, const LoaderOptions& common);

}  // namespace composer
