#include "nn/device/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"

namespace composer {
namespace {

constexpr size_t alignment = 64;
constexpr size_t huge_page = 2 << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

constexpr int readable = PROT_READ | PROT_WRITE, own_memory = MAP_PRIVATE | MAP_ANONYMOUS;

/// Addresses for `size` bytes, aligned to a huge page; null where there are none.
char* reserve(size_t size, int protection) {
  const size_t room = size + huge_page;
  void* mapping = mmap(nullptr, room, protection, own_memory, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* begin = static_cast<char*>(mapping);
  auto* block = reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(begin), huge_page));
  if (block > begin) munmap(begin, static_cast<size_t>(block - begin));
  if (begin + room > block + size)
    munmap(block + size, static_cast<size_t>(begin + room - block - size));
  return block;
}

/// Maps memory to these addresses; false where the system has none.
bool back(char* begin, size_t size) {
  if (mmap(begin, size, readable, own_memory | MAP_FIXED, -1, 0) == MAP_FAILED) return false;
  madvise(begin, size, MADV_HUGEPAGE);
  return true;
}

/// Reports to LibTorch's memory profiler of this thread; negative bytes: freed.
void report(void* block, int64_t bytes) {
  c10::reportMemoryUsageToProfiler(block, bytes, 0, 0, c10::Device(c10::DeviceType::CPU));
}

[[noreturn]] void out_of_memory(size_t bytes) {
  throw OutOfMemory("out of memory: " + std::to_string(bytes >> 20) +
                    " MiB for a tensor; a smaller batch, or grad_accum, needs less");
}

}  // namespace

c10::DataPtr CpuAllocator::allocate(size_t bytes) {
  const c10::Device device(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &release, device};
  void* block = nullptr;
  if (bytes < least)
    block = std::aligned_alloc(alignment, round_up(bytes, alignment));
  else
    block = take(round_up(bytes, bytes < huge_page ? 64 << 10 : huge_page));
  if (block == nullptr) out_of_memory(bytes);
  if (c10::memoryProfilingEnabled()) report(block, size_of(block));
  return {block, block, &release, device};
}

int64_t CpuAllocator::size_of(void* block) const {
  const std::lock_guard lock(mutex_);
  const auto found = in_use_.find(block);
  return static_cast<int64_t>(found == in_use_.end() ? malloc_usable_size(block) : found->second);
}

c10::DeleterFnPtr CpuAllocator::raw_deleter() const { return &release; }

void CpuAllocator::copy_data(void* to, const void* from, size_t bytes) const {
  std::memcpy(to, from, bytes);
}

void CpuAllocator::release(void* block) {
  if (block != nullptr && c10::memoryProfilingEnabled()) report(block, -instance().size_of(block));
  const bool may_be_large = reinterpret_cast<uintptr_t>(block) % huge_page == 0;
  if (!may_be_large || !instance().keep(block)) std::free(block);
}

bool CpuAllocator::keep(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = in_use_.find(block);
  if (found == in_use_.end()) return false;
  add(found->second < huge_page ? small_ : pages_, block, found->second);
  in_use_.erase(found);
  return true;
}

void* CpuAllocator::take(size_t size) {
  const std::lock_guard lock(mutex_);
  return size < huge_page ? take_small(size) : take_pages(size);
}

void* CpuAllocator::take_small(size_t size) {
  const auto found = small_.kept.lower_bound(size);
  if (found != small_.kept.end() && found->first <= size + size / 4) {
    const size_t all = found->first;
    return in_use_.emplace(remove(small_, found), all).first->first;
  }
  most_small_in_use_ = std::max(most_small_in_use_, small_.mapped - small_.kept_bytes + size);
  const size_t limit = most_small_in_use_ + most_small_in_use_ / 4;
  if (small_.mapped + size > limit) unmap_oldest(small_, small_.mapped + size - limit);
  void* const block = reserve_or_make_room(size, readable);
  small_.mapped += size;
  in_use_.emplace(block, size);
  return block;
}

void* CpuAllocator::take_pages(size_t size) {
  const auto found = pages_.kept.lower_bound(size);
  if (found != pages_.kept.end()) {
    const size_t rest = found->first - size;
    auto* const block = static_cast<char*>(remove(pages_, found));
    if (rest > 0) add(pages_, block + size, rest);
    in_use_.emplace(block, size);
    return block;
  }
  char* const block = reserve_or_make_room(size, PROT_NONE);
  char* const moved = move_kept_pages(block, block + size);
  const auto lacking = static_cast<size_t>(block + size - moved);
  if (lacking > 0) {
    unmap_oldest(pages_, lacking);
    if (!back(moved, lacking)) {
      munmap(moved, lacking);
      if (moved > block) add(pages_, block, static_cast<size_t>(moved - block));
      out_of_memory(size);
    }
    pages_.mapped += lacking;
  }
  in_use_.emplace(block, size);
  return block;
}

/// Unmaps the kept blocks where the system has no addresses left.
char* CpuAllocator::reserve_or_make_room(size_t size, int protection) {
  if (char* const block = reserve(size, protection)) return block;
  unmap_oldest(small_, small_.kept_bytes);
  unmap_oldest(pages_, pages_.kept_bytes);
  char* const block = reserve(size, protection);
  if (block == nullptr) out_of_memory(size);
  return block;
}

/// Returns the end of the addresses that have pages now: all kept pages were moved there, or as
/// many as the system moves. Each call moves one page, since a block's pages may come from several
/// mappings.
char* CpuAllocator::move_kept_pages(char* to, const char* end) {
  while (to < end && !pages_.kept.empty()) {
    const auto largest = std::prev(pages_.kept.end());
    size_t left = largest->first;
    auto* from = static_cast<char*>(remove(pages_, largest));
    bool refused = false;
    for (; left > 0 && to < end; left -= huge_page, from += huge_page, to += huge_page) {
      refused = mremap(from, huge_page, huge_page, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED;
      if (refused) break;
    }
    if (left > 0) add(pages_, from, left);
    if (refused) break;
  }
  return to;
}

void CpuAllocator::add(Pool& pool, void* block, size_t size) {
  pool.kept.emplace(size, Kept{block, frees_++});
  pool.kept_bytes += size;
}

void* CpuAllocator::remove(Pool& pool, std::multimap<size_t, Kept>::iterator kept) {
  void* const block = kept->second.block;
  pool.kept_bytes -= kept->first;
  pool.kept.erase(kept);
  return block;
}

void CpuAllocator::unmap_oldest(Pool& pool, size_t bytes) {
  for (size_t freed = 0; freed < bytes && !pool.kept.empty();) {
    const auto oldest = std::min_element(
        pool.kept.begin(), pool.kept.end(),
        [](const auto& a, const auto& b) { return a.second.freed < b.second.freed; });
    const size_t size = oldest->first;
    munmap(remove(pool, oldest), size);
    freed += size;
    pool.mapped -= size;
  }
}

size_t CpuAllocator::mapped_bytes() const {
  const std::lock_guard lock(mutex_);
  return small_.mapped + pages_.mapped;
}

size_t CpuAllocator::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return small_.kept_bytes + pages_.kept_bytes;
}

CpuAllocator& CpuAllocator::instance() {
  // Never destroyed: tensors in static objects may outlive everything else.
  static auto* allocator = new CpuAllocator;
  return *allocator;
}

void install_cpu_allocator() { c10::SetCPUAllocator(&CpuAllocator::instance(), /*priority=*/1); }

}  // namespace composer
