#include "composer/gpu_name.h"

#include <dlfcn.h>

#include "composer/cuda.h"

namespace composer {

std::string gpu_name(int index) {
  if (index >= open_cuda().gpus) return {};
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  using Find = int(int* device, int index);
  using NameOf = int(char* name, int bytes, int device);
  auto* const find = reinterpret_cast<Find*>(dlsym(driver, "cuDeviceGet"));
  auto* const name_of = reinterpret_cast<NameOf*>(dlsym(driver, "cuDeviceGetName"));
  char name[256] = "";
  int device = 0;
  if (find == nullptr || name_of == nullptr || find(&device, index) != 0 ||
      name_of(name, sizeof name, device) != 0)
    return {};
  return name;
}

}  // namespace composer
