#include "cuda/device_code.h"

#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

#include "cuda/launch.h"

namespace composer::cuda {

std::string refusal_of(at::Device device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, std::string> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(device.index());
  if (is_new) {
    const c10::cuda::CUDAGuard here(device);
    if (const auto error = static_cast<cudaError_t>(kernels_unavailable()); error != cudaSuccess)
      found->second = std::string("no kernels for this GPU: ") + cudaGetErrorString(error);
  }
  return found->second;
}

}  // namespace composer::cuda
