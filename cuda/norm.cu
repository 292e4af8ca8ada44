#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "cuda/norm_kernels.h"
#include "cuda/norm_launch.h"
#include "cuda/norm_passes.h"

namespace composer::cuda {
namespace {

template <class Kernel>
__global__ void __launch_bounds__(256) run(Kernel kernel) {
  extern __shared__ float shared[];
  const Place place{static_cast<int>(blockIdx.x),  static_cast<int>(blockIdx.y),
                    static_cast<int>(threadIdx.x), static_cast<int>(threadIdx.y),
                    static_cast<int>(blockDim.x),  static_cast<int>(blockDim.y)};
#pragma unroll
  for (int phase = 0; phase < Kernel::phases; ++phase) {
    if (phase > 0) __syncthreads();
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

}  // namespace

int norm_unavailable() {
  cudaFuncAttributes attributes;
  const auto error = cudaFuncGetAttributes(&attributes, run<NormStatisticsKernel>);
  if (error != cudaSuccess) cudaGetLastError();  // which the next call would report
  return error;
}

size_t norm_partial_size(int64_t rows, int channels) { return partial_size(rows, channels); }

int norm_forward(const NormForwardArguments& arguments, void* stream) {
  Queue queue(stream);
  switch (arguments.type) {
    case NormType::fp32:
      forward_passes<float>(arguments, queue);
      break;
    case NormType::fp16:
      forward_passes<__half>(arguments, queue);
      break;
    case NormType::bf16:
      forward_passes<__nv_bfloat16>(arguments, queue);
      break;
  }
  return queue.error();
}

int norm_backward(const NormBackwardArguments& arguments, void* stream) {
  Queue queue(stream);
  switch (arguments.type) {
    case NormType::fp32:
      backward_passes<float>(arguments, queue);
      break;
    case NormType::fp16:
      backward_passes<__half>(arguments, queue);
      break;
    case NormType::bf16:
      backward_passes<__nv_bfloat16>(arguments, queue);
      break;
  }
  return queue.error();
}

}  // namespace composer::cuda
