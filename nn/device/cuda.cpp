#include "nn/device/cuda.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <filesystem>
#include <typeinfo>

namespace composer {
namespace {

std::string opening_error() {
  const char* const reason = dlerror();
  return reason == nullptr ? "unknown reason" : reason;
}

bool kernel_has_driver() {
  std::error_code error;
  return std::filesystem::exists("/dev/nvidiactl", error) ||
         std::filesystem::exists("/proc/driver/nvidia/version", error);
}

std::string version(long number) {  // 1000 * major + 10 * minor
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

/// Why the driver offers no GPU, in the driver's words where it has some.
std::string why_no_gpu(void* driver) {
  auto* const initialize = function_of<int(unsigned)>(driver, "cuInit");
  auto* const describe = function_of<int(int, const char**)>(driver, "cuGetErrorString");
  if (const int error = initialize == nullptr ? 0 : initialize(0); error != 0) {
    const char* words = nullptr;
    if (describe != nullptr) describe(error, &words);
    return "the NVIDIA driver says: " +
           (words == nullptr ? "error " + std::to_string(error) : std::string(words));
  }
  auto* const version_of = function_of<int(int*)>(driver, "cuDriverGetVersion");
  const long needed = at::detail::getCUDAHooks().versionCUDART();
  int offered = 0;
  if (version_of != nullptr && version_of(&offered) == 0 && offered / 1000 < needed / 1000)
    return "the NVIDIA driver is made for CUDA " + version(offered) + ", LibTorch needs " +
           version(needed);
  return "the NVIDIA driver reports no GPU that can be used";
}

Cuda open() {
  Cuda cuda;
  void* const driver = nvidia_driver();
  cuda.driver = driver != nullptr || kernel_has_driver();
  if (!cuda.driver)
    cuda.problem = "no NVIDIA driver (libcuda.so.1) on this machine";
  else if (driver == nullptr)
    cuda.problem = "the NVIDIA driver's library cannot be opened: " + opening_error();
  else if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    cuda.problem = "LibTorch's CUDA library cannot be opened: " + opening_error();
  else if (typeid(at::detail::getCUDAHooks()) == typeid(at::CUDAHooksInterface))
    cuda.problem = "LibTorch was asked about CUDA before its CUDA library was opened";
  else if (cuda.gpus = at::detail::getCUDAHooks().getNumGPUs(); cuda.gpus == 0)
    cuda.problem = why_no_gpu(driver);
  return cuda;
}

}  // namespace

void* nvidia_driver() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL); }

const Cuda& open_cuda() {
  static const Cuda cuda = open();
  return cuda;
}

}  // namespace composer
