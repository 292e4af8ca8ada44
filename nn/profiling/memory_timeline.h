// The memory of a training step over time, by use.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

#include "nn/profiling/trace_file.h"

namespace c10 {
class DebugInfoGuard;
}

namespace composer {

/// Records what this thread, and its backward passes on other threads, allocate on a device while
/// it lives.
class MemoryTimeline {
 public:
  explicit MemoryTimeline(at::Device device);
  ~MemoryTimeline();
  MemoryTimeline(const MemoryTimeline&) = delete;
  MemoryTimeline& operator=(const MemoryTimeline&) = delete;

  /// Declares all current tensors of this use. Undefined tensors are ignored.
  void mark(MemoryUse use, const std::vector<at::Tensor>& tensors);

  /// The points in order of time; changes below a thousandth of the peak are merged. Blocks that
  /// were allocated before count from their first mark() on.
  std::vector<MemoryPoint> points() const;

 private:
  class Listener;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace composer
