// LibTorch's CUDA library, opened at run time: the program does not link it.
#pragma once

#include <dlfcn.h>

#include <string>

namespace composer {

struct Cuda {
  int gpus = 0;         ///< that can be used
  std::string problem;  ///< why there is none; empty where there is one
  bool driver = false;  ///< whether this machine has an NVIDIA driver
};

/// Opens the library, at the first call, where there is a driver. LibTorch keeps the first answer
/// it gives itself about CUDA: whatever asks (at::manual_seed, at::hasCUDA, Tensor::is_pinned) must
/// come later, or there is no GPU for the rest of the process, and `problem` says that.
const Cuda& open_cuda();

/// NVIDIA's driver, opened; nullptr where it cannot be.
void* nvidia_driver();

/// A function of a library that was opened; nullptr where it has none of that name, and without a
/// library.
template <class Function>
Function* function_of(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace composer
