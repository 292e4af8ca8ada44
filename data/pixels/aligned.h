// Memory for vector instructions: a std::vector that begins at a cache line, so that no load of a
// whole line takes two.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace composer {

template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}

  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kLine); }
  bool operator==(const LineAllocator&) const { return true; }
};

template <class T>
using AlignedVector = std::vector<T, LineAllocator<T>>;

}  // namespace composer
