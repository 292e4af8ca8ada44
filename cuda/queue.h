// Launches kernels on a stream; for sources that nvcc compiles.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/grid.h"

namespace composer::cuda {

template <class Kernel>
__global__ void __launch_bounds__(256, 2) run(Kernel kernel) {
  extern __shared__ float shared[];
  const Place place{static_cast<int>(blockIdx.x),  static_cast<int>(blockIdx.y),
                    static_cast<int>(threadIdx.x), static_cast<int>(threadIdx.y),
                    static_cast<int>(blockDim.x),  static_cast<int>(blockDim.y)};
  kernel.phase(0, place, shared);
#pragma unroll 1
  for (int phase = 1; phase < Kernel::phases; ++phase) {
    __syncthreads();
    kernel.phase(phase, place, shared);
  }
}

/// Queues kernels on a stream, up to the first error.
class Queue {
 public:
  explicit Queue(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}

  template <class Kernel>
  void operator()(const Grid& grid, const Kernel& kernel) {
    if (error_ != cudaSuccess) return;
    run<<<dim3(grid.blocks_x, grid.blocks_y), dim3(grid.lanes_x, grid.lanes_y), grid.shared,
          stream_>>>(kernel);
    error_ = cudaGetLastError();
  }
  int error() const { return error_; }

 private:
  cudaStream_t stream_;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace composer::cuda
