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

int norm_forward(const NormForwardArguments& arguments, void* stream) {
  Queue queue(stream);
  with_type<__half, __nv_bfloat16>(arguments.type,
                                   [&]<class T>() { forward_passes<T>(arguments, queue); });
  return queue.error();
}

int norm_backward(const NormBackwardArguments& arguments, void* stream) {
  Queue queue(stream);
  with_type<__half, __nv_bfloat16>(arguments.type,
                                   [&]<class T>() { backward_passes<T>(arguments, queue); });
  return queue.error();
}

}  // namespace composer::cuda
