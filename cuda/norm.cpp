// Fused batch normalisation on GPUs.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/device_code.h"
#include "cuda/norm_on_device.h"

namespace composer::cuda {
namespace {

struct Gpu {
  static std::string refusal(at::Device device) { return refusal_of(device); }
  static void forward(const NormForwardArguments& given, at::Device device) {
    const c10::cuda::CUDAGuard here(device);
    check(norm_forward(given, c10::cuda::getCurrentCUDAStream().stream()));
  }
  static void backward(const NormBackwardArguments& given, at::Device device) {
    const c10::cuda::CUDAGuard here(device);
    check(norm_backward(given, c10::cuda::getCurrentCUDAStream().stream()));
  }

 private:
  static void check(int error) { C10_CUDA_CHECK(static_cast<cudaError_t>(error)); }
};

}  // namespace
}  // namespace composer::cuda

extern "C" const composer::NormKernels* composer_norm_kernels() {
  static const composer::cuda::NormOnDevice<composer::cuda::Gpu> kernels;
  return &kernels;
}
