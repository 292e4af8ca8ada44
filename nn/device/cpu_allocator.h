// The allocator of CPU tensors: freed large blocks are kept for later requests and backed by huge
// pages. A training step asks for the same blocks again and again; fresh pages from the system for
// each would cost up to half of a small network's step.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>

namespace composer {

/// Blocks of 512 KiB and more come from mappings of their own; blocks from 2 MiB on come in whole
/// huge pages. Freed huge pages serve later requests of any size: a larger block is split, and the
/// pages of smaller blocks are moved together without copying. So the mapped huge pages never
/// exceed the most that were in use at one time. A freed block below 2 MiB serves a later request
/// of at least 4/5 of its size; when the mapped small blocks exceed the most that were in use by a
/// quarter, the blocks that are longest unused are unmapped.
class CpuAllocator final : public c10::Allocator {
 public:
  static constexpr size_t least = 512 << 10;

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override;

  size_t mapped_bytes() const;  ///< bytes in use and kept
  size_t kept_bytes() const;

  /// The allocator that install_cpu_allocator() installs.
  static CpuAllocator& instance();

 private:
  struct Kept {
    void* block;
    uint64_t freed;  ///< the number of frees before this one
  };
  /// The blocks below the size of a huge page, or the blocks of huge pages.
  struct Pool {
    std::multimap<size_t, Kept> kept;
    size_t mapped = 0, kept_bytes = 0;
  };

  static void release(void* block);
  int64_t size_of(void* block) const;
  bool keep(void* block);  ///< false for a block that in_use_ does not have
  void* take(size_t size);
  void* take_small(size_t size);
  void* take_pages(size_t size);
  void add(Pool& pool, void* block, size_t size);
  void* remove(Pool& pool, std::multimap<size_t, Kept>::iterator kept);
  char* reserve_or_make_room(size_t size, int protection);
  char* move_kept_pages(char* to, const char* end);
  void unmap_oldest(Pool& pool, size_t bytes);

  mutable std::mutex mutex_;
  std::unordered_map<void*, size_t> in_use_;
  Pool small_, pages_;
  size_t most_small_in_use_ = 0;  ///< bytes
  uint64_t frees_ = 0;
};

/// Makes CpuAllocator::instance() the allocator of all CPU tensors from now on. A repeated call
/// does nothing.
void install_cpu_allocator();

}  // namespace composer
