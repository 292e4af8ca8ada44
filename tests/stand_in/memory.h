// Memory of the stand-in's GPU and page-locked memory: both are the host's.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace composer::stand_in {

/// Of this thread, as with CUDA.
inline c10::DeviceIndex& current_device() {
  static thread_local c10::DeviceIndex index = 0;
  return index;
}

class DeviceMemory : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto* block = static_cast<Block*>(std::aligned_alloc(64, (bytes + 2 * 64 - 1) / 64 * 64));
    block->bytes = static_cast<int64_t>(bytes);
    {
      const std::lock_guard guard(lock());
      blocks().insert(block);
    }
    const int64_t now = in_use() += block->bytes;
    for (int64_t most = peak(); now > most && !peak().compare_exchange_weak(most, now);) {
    }
    return {reinterpret_cast<char*>(block) + 64,
            block,
            &release,
            {c10::DeviceType::CUDA, current_device()}};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].peak = peak();
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override { peak() = in_use().load(); }

  /// What all of it holds.
  static std::map<void*, std::vector<char>> contents() {
    const std::lock_guard guard(lock());
    std::map<void*, std::vector<char>> all;
    for (const Block* block : blocks()) {
      const char* bytes = reinterpret_cast<const char*>(block) + 64;
      all[const_cast<char*>(bytes)].assign(bytes, bytes + block->bytes);
    }
    return all;
  }
  /// As it was, but for what was freed since.
  static void restore(const std::map<void*, std::vector<char>>& contents) {
    const std::lock_guard guard(lock());
    for (const Block* block : blocks()) {
      void* const place = const_cast<char*>(reinterpret_cast<const char*>(block)) + 64;
      const auto found = contents.find(place);
      if (found == contents.end()) continue;
      const auto& bytes = found->second;
      std::copy_n(bytes.begin(), std::min<int64_t>(std::ssize(bytes), block->bytes),
                  static_cast<char*>(place));
    }
  }

 private:
  struct Block {
    int64_t bytes;
  };
  static std::mutex& lock() {
    static auto* mutex = new std::mutex;
    return *mutex;
  }
  static std::set<Block*>& blocks() {
    static auto* set = new std::set<Block*>;
    return *set;
  }
  static std::atomic<int64_t>& in_use() {
    static std::atomic<int64_t> bytes = 0;
    return bytes;
  }
  static std::atomic<int64_t>& peak() {
    static std::atomic<int64_t> bytes = 0;
    return bytes;
  }
  static void release(void* block) {
    {
      const std::lock_guard guard(lock());
      blocks().erase(static_cast<Block*>(block));
    }
    in_use() -= static_cast<Block*>(block)->bytes;
    std::free(block);
  }
};

class PinnedMemory : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto* block = static_cast<char*>(std::aligned_alloc(64, (bytes + 2 * 64 - 1) / 64 * 64));
    const std::lock_guard guard(lock());
    blocks()[block] = block + bytes + 1;
    return {block, block, &release, c10::DeviceType::CPU};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  static bool holds(const void* place) {
    const std::lock_guard guard(lock());
    const auto after = blocks().upper_bound(static_cast<const char*>(place));
    return after != blocks().begin() && place < std::prev(after)->second;
  }

 private:
  static std::mutex& lock() {
    static auto* mutex = new std::mutex;
    return *mutex;
  }
  static std::map<const char*, const char*>& blocks() {
    static auto* map = new std::map<const char*, const char*>;
    return *map;
  }
  static void release(void* block) {
    {
      const std::lock_guard guard(lock());
      blocks().erase(static_cast<char*>(block));
    }
    std::free(block);
  }
};

}  // namespace composer::stand_in
