// What the programs that test libcomposer_cuda.so do alike.
#pragma once

#include <ATen/DeviceAccelerator.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <iostream>
#include <string>
#include <string_view>

#include "nn/device/cuda.h"

namespace composer {

/// Calls `test` with LibTorch's CUDA library open and the first GPU current; returns its result,
/// the program's exit status. Where there is no GPU, `test` must throw an error that has `refusal`
/// in it.
int on_first_gpu(std::string_view refusal, const auto& test) {
  const int gpus = open_cuda().gpus;
  if (gpus == 0 && dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::cerr << "libtorch_cuda.so: " << dlerror() << '\n';
    return 1;
  }
  try {
    if (gpus > 0) at::accelerator::setDeviceIndex(0);
    return test();
  } catch (const c10::Error& error) {
    const std::string problem = error.what_without_backtrace();
    std::cout << "SKIPPED on a GPU: " << problem << '\n';
    return gpus == 0 && problem.find(refusal) != std::string::npos ? 0 : 1;
  }
}

}  // namespace composer
