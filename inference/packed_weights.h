// A layer's weights in the orders in which oneDNN reads them.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace composer {

/// The best order depends on the number of images. Each number's is made when it is first asked
/// for, and kept: in another order, every call would bring all weights into its own.
class PackedWeights {
 public:
  using Pack = std::function<at::Tensor(int64_t images)>;
  explicit PackedWeights(Pack pack) : pack_(std::move(pack)) {}

  /// From any thread.
  at::Tensor for_images(int64_t images) const {
    const std::lock_guard lock(mutex_);
    auto& packed = packed_[images];
    if (!packed.defined()) packed = pack_(images);
    return packed;
  }

 private:
  Pack pack_;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, at::Tensor> packed_;
};

}  // namespace composer
