// Memory of packed weights.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace composer {

/// Weights of several layers side by side on huge pages: a pass reads all of a network's once,
/// which pages of 4 KiB make a third slower.
class WeightPages {
 public:
  /// From any thread; 64-byte aligned. A page goes when all that was on it has gone, but for the
  /// last one, of 4 MiB.
  std::shared_ptr<int8_t> take(size_t bytes);

  /// That of all networks.
  static WeightPages& instance();

 private:
  std::mutex mutex_;
  std::shared_ptr<c10::DataPtr> page_;
  int8_t* next_ = nullptr;
  size_t room_ = 0;  ///< from there on
};

}  // namespace composer
