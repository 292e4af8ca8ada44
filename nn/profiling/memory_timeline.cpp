#include "nn/profiling/memory_timeline.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace composer {
namespace {

int64_t unix_nanoseconds() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// A block was allocated or freed, or blocks were marked.
struct MemoryEvent {
  int64_t nanoseconds;
  const void* address = nullptr;
  int64_t bytes = 0;  ///< negative: freed
  std::optional<MemoryUse> marked{};
  std::vector<std::pair<const void*, int64_t>> blocks{};  ///< blocks of a mark
};

/// The use of each event's block: that of the last mark while it was allocated.
std::vector<MemoryUse> uses_of(const std::vector<MemoryEvent>& events) {
  std::vector<MemoryUse> uses(events.size(), MemoryUse::activations);
  std::unordered_map<const void*, size_t> living;
  for (size_t i = 0; i < events.size(); ++i) {
    const auto& event = events[i];
    if (event.marked) {
      for (const auto& [address, bytes] : event.blocks)
        if (const auto found = living.find(address); found != living.end())
          uses[found->second] = *event.marked;
    } else if (event.bytes > 0) {
      living[event.address] = i;
    } else {
      living.erase(event.address);
    }
  }
  return uses;
}

/// Sums of the allocated blocks.
class Balance {
 public:
  void add(const void* address, MemoryUse use, int64_t bytes, bool seen) {
    remove(address);
    blocks_[address] = {use, bytes, seen};
    sum(use) += bytes;
  }
  void remove(const void* address) {
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return;
    sum(found->second.use) -= found->second.bytes;
    blocks_.erase(found);
  }
  /// Replaces the blocks of this use whose allocation was not seen.
  void set(MemoryUse use, const std::vector<std::pair<const void*, int64_t>>& marked) {
    std::vector<const void*> gone;
    for (const auto& [address, block] : blocks_)
      if (block.use == use && !block.seen) gone.push_back(address);
    for (const auto* address : gone) remove(address);
    for (const auto& [address, bytes] : marked)
      if (!blocks_.contains(address)) add(address, use, bytes, /*seen=*/false);
  }
  const std::array<int64_t, memory_use_names.size()>& sums() const { return sums_; }

 private:
  struct Block {
    MemoryUse use;
    int64_t bytes;
    bool seen;
  };
  int64_t& sum(MemoryUse use) { return sums_[static_cast<size_t>(use)]; }

  std::unordered_map<const void*, Block> blocks_;
  std::array<int64_t, memory_use_names.size()> sums_{};
};

/// Drops changes that are too small to be seen in a chart.
std::vector<MemoryPoint> thinned(const std::vector<MemoryPoint>& points) {
  int64_t most = 0;
  for (const auto& point : points)
    for (const int64_t bytes : point.bytes) most = std::max(most, bytes);
  std::vector<MemoryPoint> kept;
  for (const auto& point : points) {
    int64_t change = kept.empty() ? most : 0;
    for (size_t i = 0; !kept.empty() && i < point.bytes.size(); ++i)
      change = std::max(change, std::abs(point.bytes[i] - kept.back().bytes[i]));
    if (change * 1000 >= most) kept.push_back(point);
  }
  return kept;
}

}  // namespace

/// LibTorch's allocators report to the profiler of the thread. This class is registered as that
/// profiler; a profiler of all threads leaves the thread's slot free.
class MemoryTimeline::Listener : public torch::profiler::impl::ProfilerStateBase {
 public:
  explicit Listener(at::Device device)
      : ProfilerStateBase(torch::profiler::impl::ProfilerConfig(
            torch::profiler::impl::ProfilerState::Disabled, /*report_input_shapes=*/false,
            /*profile_memory=*/true)),
        device_(device) {}

  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::NONE;
  }

  void reportMemoryUsage(void* block, int64_t bytes, size_t, size_t, c10::Device device) override {
    if (device.type() == device_.type() && bytes != 0)
      add({.nanoseconds = unix_nanoseconds(), .address = block, .bytes = bytes});
  }

  void add(MemoryEvent event) {
    const std::lock_guard guard(lock_);
    events_.push_back(std::move(event));
  }

  std::vector<MemoryEvent> events() const {
    const std::lock_guard guard(lock_);
    return events_;
  }

  at::Device device() const { return device_; }

 private:
  const at::Device device_;
  mutable std::mutex lock_;
  std::vector<MemoryEvent> events_;
};

MemoryTimeline::MemoryTimeline(at::Device device)
    : listener_(std::make_shared<Listener>(device)),
      guard_(std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, listener_)) {
}

MemoryTimeline::~MemoryTimeline() = default;

void MemoryTimeline::mark(MemoryUse use, const std::vector<at::Tensor>& tensors) {
  MemoryEvent event{.nanoseconds = unix_nanoseconds(), .marked = use};
  std::set<const void*> known;
  for (const auto& tensor : tensors) {
    if (!tensor.defined() || !tensor.has_storage() || tensor.storage().nbytes() == 0) continue;
    if (tensor.device().type() != listener_->device().type()) continue;
    const void* const address = tensor.storage().data();
    if (address != nullptr && known.insert(address).second)
      event.blocks.emplace_back(address, static_cast<int64_t>(tensor.storage().nbytes()));
  }
  listener_->add(std::move(event));
}

std::vector<MemoryPoint> MemoryTimeline::points() const {
  const auto events = listener_->events();
  const auto uses = uses_of(events);
  Balance balance;
  std::vector<MemoryPoint> points;
  for (size_t i = 0; i < events.size(); ++i) {
    const auto& event = events[i];
    if (event.marked)
      balance.set(*event.marked, event.blocks);
    else if (event.bytes > 0)
      balance.add(event.address, uses[i], event.bytes, /*seen=*/true);
    else
      balance.remove(event.address);
    points.push_back({event.nanoseconds, balance.sums()});
  }
  return thinned(points);
}

}  // namespace composer
