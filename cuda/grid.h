// Kernels as objects that the GPU runs and tests run on the CPU: the same code, thread by thread;
// and the numbers that a thread reads or writes at once.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define COMPOSER_ANYWHERE __host__ __device__ inline
#else
#define COMPOSER_ANYWHERE inline
#endif

namespace composer::cuda {

/// A kernel has `static constexpr int phases` and `phase(int, const Place&, void* shared)`, which
/// each thread calls for 0, 1 ... phases - 1; between two phases the threads of a block wait for
/// each other. Within a phase they do not read what others of them write.
struct Grid {
  int blocks_x = 1, blocks_y = 1;
  int lanes_x = 1, lanes_y = 1;  ///< threads of a block
  size_t shared = 0;             ///< bytes that the threads of a block share
};

struct Place {
  int block_x, block_y;
  int lane_x, lane_y, lanes_x, lanes_y;
};

inline constexpr int values_at_once = 8;

/// Memory that is loaded or stored at once; aligned to its size, at most 16 bytes.
template <class T>
struct alignas(sizeof(T) * values_at_once < 16 ? sizeof(T) * values_at_once : 16) Values {
  T values[values_at_once];
};

template <class T>
COMPOSER_ANYWHERE Values<T> load_values(const T* from) {
  return *reinterpret_cast<const Values<T>*>(from);
}

template <class T>
COMPOSER_ANYWHERE void store_values(T* to, const Values<T>& values) {
  *reinterpret_cast<Values<T>*>(to) = values;
}

}  // namespace composer::cuda
