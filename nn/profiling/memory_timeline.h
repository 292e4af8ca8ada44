// What a step's memory holds, over time.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

#include "nn/profiling/memory_point.h"

namespace c10 {
class DebugInfoGuard;
}

namespace composer {

/// Follows what this thread allocates on a device while it lives, and its backward passes on other
/// threads.
class MemoryTimeline {
 public:
  explicit MemoryTimeline(at::Device device);
  ~MemoryTimeline();
  MemoryTimeline(const MemoryTimeline&) = delete;
  MemoryTimeline& operator=(const MemoryTimeline&) = delete;

  /// These are all tensors of this use that there are now. Undefined ones do no harm.
  void mark(MemoryUse use, const std::vector<at::Tensor>& tensors);

  /// In order of time; changes of less than a thousandth of the most that there was are put
  /// together. Blocks that were there before count from their first mark on.
  std::vector<MemoryPoint> points() const;

 private:
  class Listener;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace composer
