#include "data/batches/tensor_pool.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace composer {

/// The free blocks. Tensors in use share the ownership.
struct TensorPool::Shelf {
  std::mutex lock;
  std::vector<at::Tensor> blocks;  // never more than its capacity: put() must not throw

  void put(const at::Tensor& block) {
    const std::lock_guard guard(lock);
    if (blocks.size() < blocks.capacity()) blocks.push_back(block);
  }

  at::Tensor take(int64_t bytes) {
    const std::lock_guard guard(lock);
    const auto fitting =
        std::ranges::find_if(blocks, [&](const at::Tensor& b) { return b.numel() >= bytes; });
    if (fitting != blocks.end()) {
      at::Tensor block = std::move(*fitting);
      blocks.erase(fitting);
      return block;
    }
    if (!blocks.empty()) blocks.pop_back();  // all blocks are too small: one makes room
    return at::empty({bytes}, at::TensorOptions(at::kByte));
  }
};

TensorPool::TensorPool(size_t kept, bool pinned)
    : shelf_(std::make_shared<Shelf>()), pinned_(pinned) {
  shelf_->blocks.reserve(kept);
}

at::Tensor TensorPool::reused(at::IntArrayRef shape, at::ScalarType type) {
  // A copy to the device may still read pinned memory after its last owner. The allocator of pinned
  // memory waits for such copies, and has a cache of its own.
  if (pinned_) return fresh(shape, type);
  const auto bytes = static_cast<int64_t>(c10::elementSize(type));
  const at::Tensor block = shelf_->take(c10::multiply_integers(shape) * bytes);
  return at::from_blob(
      block.mutable_data_ptr(), shape, [shelf = shelf_, block](void*) { shelf->put(block); }, type);
}

at::Tensor TensorPool::fresh(at::IntArrayRef shape, at::ScalarType type) const {
  return at::empty(shape, at::TensorOptions(type).pinned_memory(pinned_));
}

void TensorPool::clear() {
  const std::lock_guard guard(shelf_->lock);
  shelf_->blocks.clear();
}

}  // namespace composer
