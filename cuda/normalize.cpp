// Normalisation of images on GPUs.
#include "nn/network/normalize.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/device_code.h"
#include "cuda/normalize_call.h"

extern "C" bool composer_normalize(const at::Tensor& images, const float* scale, const float* shift,
                                   const at::Tensor& output) {
  namespace cuda = composer::cuda;
  const auto given = cuda::normalize_arguments(images, scale, shift, output);
  if (!given || !cuda::refusal_of(images.device()).empty()) return false;
  const c10::cuda::CUDAGuard device(images.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  C10_CUDA_CHECK(static_cast<cudaError_t>(cuda::normalize_images(*given, stream)));
  return true;
}
