// LibTorch's CUDA library, opened at run time: the program does not link it.
#pragma once

#include <dlfcn.h>

#include <string>

namespace composer {

struct Cuda {
  int gpus = 0;         ///< GPUs that can be used
  std::string problem;  ///< why no GPU can be used; empty where one can
  bool driver = false;  ///< whether this machine has an NVIDIA driver
};

/// Opens the library at the first call, where there is a driver. LibTorch keeps its first answer
/// about CUDA: code that asks (at::manual_seed, at::hasCUDA, Tensor::is_pinned) must run after this
/// call; otherwise the process has no GPU, and `problem` says so.
const Cuda& open_cuda();

/// NVIDIA's driver, opened; nullptr where it cannot be opened.
void* nvidia_driver();

/// The function of that name in an opened library; nullptr where the library has none, and for a
/// null library.
template <class Function>
Function* function_of(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace composer
