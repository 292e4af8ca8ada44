#include "composer/cuda_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "composer/error.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "libcomposer_cuda.so";

std::string place_of_library() {
  std::error_code error;
  const auto here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& folder :
       {here, here.parent_path() / "lib", here.parent_path().parent_path() / "lib"})
    if (fs::exists(folder / file_name, error)) return folder / file_name;
  return file_name;
}

void* open_library(const std::string& purpose) {
  void* const library = dlopen(place_of_library().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  throw UserError(
      purpose + " " + file_name + ", which cannot be opened: " + dlerror() +
      "; it is built where LibTorch with CUDA is (COMPOSER_CUDA=1 cmake/bootstrap build)");
}

}  // namespace

void* function_of_cuda_library(const char* name, const std::string& purpose) {
  static void* const library = open_library(purpose);
  if (void* const function = dlsym(library, name)) return function;
  throw UserError(place_of_library() + ": has no " + name + ": it is of another version");
}

}  // namespace composer
