#include "nn/device/cuda_library.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "base/log.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "libcomposer_cuda.so";

std::string library_path() {
  std::error_code error;
  const auto here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& folder :
       {here, here.parent_path() / "lib", here.parent_path().parent_path() / "lib"})
    if (fs::exists(folder / file_name, error)) return folder / file_name;
  return file_name;
}

void* open_library(const std::string& purpose) {
  void* const library = dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) {
    auto* const interface = reinterpret_cast<decltype(&composer_cuda_interface)>(
        dlsym(library, "composer_cuda_interface"));
    if (interface != nullptr && std::strcmp(interface(), CUDA_INTERFACE) == 0) return library;
    throw UserError(library_path() +
                    ": is of another version than this program; build both together");
  }
  throw UserError(
      purpose + " " + file_name + ", which cannot be opened: " + dlerror() +
      "; it is built where LibTorch with CUDA is (COMPOSER_CUDA=1 cmake/bootstrap build)");
}

}  // namespace

void* function_of_cuda_library(const char* name, const std::string& purpose) {
  static void* const library = open_library(purpose);
  if (void* const function = dlsym(library, name)) return function;
  throw UserError(library_path() + ": has no " + name +
                  ": it was built without nvcc, the compiler of CUDA");
}

void* faster_function_of_cuda_library(const char* name) {
  try {
    return function_of_cuda_library(name, "kernels of the GPU's own need");
  } catch (const UserError& error) {
    static std::once_flag said;
    std::call_once(said, [&] {
      log::warn(std::string("the GPU computes by LibTorch's operators alone, more slowly: ") +
                error.what());
    });
    return nullptr;
  }
}

}  // namespace composer
