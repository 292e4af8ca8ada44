// libcomposer_cuda.so opens, and NCCL in it: sums on a GPU where there is one, else says that there
// is none. A program of its own, as LibTorch's CUDA library stays open.
#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <dlfcn.h>

#include <iostream>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "composer/cuda.h"
#include "composer/distributed/nccl.h"

int main() {
  const int gpus = composer::open_cuda().gpus;
  if (gpus == 0 && dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::cerr << "libtorch_cuda.so: " << dlerror() << '\n';
    return 1;
  }
  try {
    if (gpus > 0) at::accelerator::setDeviceIndex(0);
    const auto nccl =
        composer::open_nccl(c10::make_intrusive<c10d::HashStore>(), 0, 1, std::chrono::seconds(30));
    std::vector<at::Tensor> numbers{at::full({3}, 2., at::Device(at::kCUDA, 0))};
    nccl->allreduce(numbers)->wait();
    std::cout << "one rank's sum on a GPU: " << numbers[0][0].item<double>() << '\n';
    nccl->shutdown();
    return numbers[0].cpu().equal(at::full({3}, 2.)) ? 0 : 1;
  } catch (const c10::Error& error) {
    const std::string problem = error.what_without_backtrace();
    std::cout << "SKIPPED on a GPU: " << problem << '\n';
    return gpus == 0 && problem.find("no GPUs found") != std::string::npos ? 0 : 1;
  }
}
