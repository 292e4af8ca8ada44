#include "composer/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "composer/error.h"

namespace composer {
namespace {

constexpr size_t alignment = 64;
constexpr size_t huge_page = 2 << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// `size` bytes at a border of huge pages, or null.
void* map(size_t size) {
  const size_t room = size + huge_page;
  void* mapping = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* begin = static_cast<char*>(mapping);
  auto* block = reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(begin), huge_page));
  if (block > begin) munmap(begin, static_cast<size_t>(block - begin));
  if (begin + room > block + size)
    munmap(block + size, static_cast<size_t>(begin + room - block - size));
  if (size >= huge_page) madvise(block, size, MADV_HUGEPAGE);
  return block;
}

[[noreturn]] void out_of_memory(size_t bytes) {
  throw RunError("out of memory: " + std::to_string(bytes >> 20) +
                 " MiB for a tensor; a smaller batch, or grad_accum, needs less");
}

}  // namespace

c10::DataPtr CpuAllocator::allocate(size_t bytes) {
  const c10::Device device(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &release, device};
  if (bytes < least) {
    void* block = std::aligned_alloc(alignment, round_up(bytes, alignment));
    if (block == nullptr) out_of_memory(bytes);
    return {block, block, &release, device};
  }
  void* block = take(round_up(bytes, bytes < huge_page ? 64 << 10 : huge_page));
  return {block, block, &release, device};
}

c10::DeleterFnPtr CpuAllocator::raw_deleter() const { return &release; }

void CpuAllocator::copy_data(void* to, const void* from, size_t bytes) const {
  std::memcpy(to, from, bytes);
}

void CpuAllocator::release(void* block) {
  const bool may_be_large = reinterpret_cast<uintptr_t>(block) % huge_page == 0;
  if (!may_be_large || !instance().keep(block)) std::free(block);
}

void* CpuAllocator::take(size_t size) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.lower_bound(size);
  if (found != kept_.end() && found->first <= size + size / 4) {
    void* block = found->second.block;
    in_use_.emplace(block, found->first);
    kept_bytes_ -= found->first;
    kept_.erase(found);
    return block;
  }
  most_in_use_ = std::max(most_in_use_, mapped_ - kept_bytes_ + size);
  const size_t limit = most_in_use_ + most_in_use_ / 4;
  if (mapped_ + size > limit) unmap_oldest(mapped_ + size - limit);
  void* block = map(size);
  if (block == nullptr) {
    unmap_oldest(kept_bytes_);
    block = map(size);
  }
  if (block == nullptr) out_of_memory(size);
  mapped_ += size;
  in_use_.emplace(block, size);
  return block;
}

bool CpuAllocator::keep(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = in_use_.find(block);
  if (found == in_use_.end()) return false;
  kept_.emplace(found->second, Kept{block, frees_++});
  kept_bytes_ += found->second;
  in_use_.erase(found);
  return true;
}

void CpuAllocator::unmap_oldest(size_t bytes) {
  for (size_t freed = 0; freed < bytes && !kept_.empty();) {
    const auto oldest = std::min_element(
        kept_.begin(), kept_.end(),
        [](const auto& a, const auto& b) { return a.second.freed < b.second.freed; });
    munmap(oldest->second.block, oldest->first);
    freed += oldest->first;
    mapped_ -= oldest->first;
    kept_bytes_ -= oldest->first;
    kept_.erase(oldest);
  }
}

size_t CpuAllocator::mapped_bytes() const {
  const std::lock_guard lock(mutex_);
  return mapped_;
}

size_t CpuAllocator::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

CpuAllocator& CpuAllocator::instance() {
  // Never destroyed: tensors in static objects may outlive everything else.
  static auto* allocator = new CpuAllocator;
  return *allocator;
}

void install_cpu_allocator() { c10::SetCPUAllocator(&CpuAllocator::instance(), /*priority=*/1); }

}  // namespace composer
