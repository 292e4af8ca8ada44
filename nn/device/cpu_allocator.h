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

/// Blocks of half a MiB and more come from mappings of its own, those from 2 MiB on in whole huge
/// pages. Freed pages serve later requests, whatever their sizes: a larger block is divided, and
/// smaller ones' pages are moved together, without copying. So of these no more is mapped than the
/// most that was in use at one time. A freed block below 2 MiB serves a later request that it fits
/// to a quarter; the longest unused make room once what is mapped of them exceeds by a quarter the
/// most that was in use.
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
  /// Of blocks below a huge page, or of huge pages.
  struct Pool {
    std::multimap<size_t, Kept> kept;
    size_t mapped = 0, kept_bytes = 0;
  };

  static void release(void* block);
  int64_t size_of(void* block) const;
  bool keep(void* block);  ///< false for a block that is not one of the large ones
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

/// Makes CpuAllocator::instance() the allocator of all CPU tensors made from now on. Repeating it
/// does nothing.
void install_cpu_allocator();

}  // namespace composer
