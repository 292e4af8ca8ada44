// Kernels as objects that the GPU runs and tests run on the CPU: the same code, thread by thread.
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

}  // namespace composer::cuda
