// Memory of CPU tensors: large blocks are kept when they are freed and backed by huge pages. A
// training step asks for the same blocks again and again; fresh pages from the system for each
// would cost up to half of a small network's step.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>

namespace composer {

/// Blocks of half a MiB and more come from mappings of its own; a freed one serves a later request
/// that it fits to a quarter. Kept blocks make room, the longest unused first, once what is mapped
/// exceeds by a quarter the most that was ever in use at one time.
class CpuAllocator final : public c10::Allocator {
 public:
  static constexpr size_t least = 512 << 10;

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override;

  size_t mapped_bytes() const;  ///< in use and kept
  size_t kept_bytes() const;

  /// The allocator that install_cpu_allocator() installs.
  static CpuAllocator& instance();

 private:
  struct Kept {
    void* block;
    uint64_t freed;  ///< when, counted in frees
  };

  static void release(void* block);
  void* take(size_t size);
  bool keep(void* block);  ///< false for a block that is not one of the large ones
  void unmap_oldest(size_t bytes);

  mutable std::mutex mutex_;
  std::unordered_map<void*, size_t> in_use_;
  std::multimap<size_t, Kept> kept_;
  size_t mapped_ = 0, kept_bytes_ = 0, most_in_use_ = 0;
  uint64_t frees_ = 0;
};

/// Makes CpuAllocator::instance() the allocator of all CPU tensors made from now on. Repeating it
/// does nothing.
void install_cpu_allocator();

}  // namespace composer
