#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/norm_kernels.h"
#include "cuda/norm_launch.h"
#include "cuda/norm_passes.h"
#include "cuda/queue.h"

namespace composer::cuda {

int kernels_unavailable() {
  cudaFuncAttributes attributes;
  const auto error = cudaFuncGetAttributes(&attributes, run<NormStatisticsKernel>);
  if (error != cudaSuccess) cudaGetLastError();  // which the next call would report
  return error;
}

size_t norm_partial_size(int64_t rows, int channels) { return partial_size(rows, channels); }

int norm_forward(const NormForwardArguments& arguments, void* stream) {
  Queue queue(stream);
  switch (arguments.type) {
    case NumberType::fp32:
      forward_passes<float>(arguments, queue);
      break;
    case NumberType::fp16:
      forward_passes<__half>(arguments, queue);
      break;
    case NumberType::bf16:
      forward_passes<__nv_bfloat16>(arguments, queue);
      break;
  }
  return queue.error();
}

int norm_backward(const NormBackwardArguments& arguments, void* stream) {
  Queue queue(stream);
  switch (arguments.type) {
    case NumberType::fp32:
      backward_passes<float>(arguments, queue);
      break;
    case NumberType::fp16:
      backward_passes<__half>(arguments, queue);
      break;
    case NumberType::bf16:
      backward_passes<__nv_bfloat16>(arguments, queue);
      break;
  }
  return queue.error();
}

}  // namespace composer::cuda
