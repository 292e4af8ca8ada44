#include "composer/gpu_name.h"

#include <dlfcn.h>

#include "composer/cuda.h"

namespace composer {
namespace {

/// A function of NVIDIA's driver; nullptr where there is none.
template <class Function>
Function* in_driver(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return driver == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(driver, name));
}

using Find = int(int* device, int index);

}  // namespace

std::string gpu_name(int index) {
  if (index >= open_cuda().gpus) return {};
  auto* const find = in_driver<Find>("cuDeviceGet");
  auto* const name_of = in_driver<int(char* name, int bytes, int device)>("cuDeviceGetName");
  char name[256] = "";
  int device = 0;
  if (find == nullptr || name_of == nullptr || find(&device, index) != 0 ||
      name_of(name, sizeof name, device) != 0)
    return {};
  return name;
}

std::vector<std::string> gpu_addresses() {
  auto* const initialize = in_driver<int(unsigned flags)>("cuInit");
  auto* const count_all = in_driver<int(int* count)>("cuDeviceGetCount");
  auto* const find = in_driver<Find>("cuDeviceGet");
  auto* const address_of =
      in_driver<int(char* address, int bytes, int device)>("cuDeviceGetPCIBusId");
  int count = 0, device = 0;
  if (initialize == nullptr || count_all == nullptr || initialize(0) != 0 || count_all(&count) != 0)
    return {};
  std::vector<std::string> addresses;
  for (int index = 0; index < count; ++index) {
    char address[64] = "";
    const bool told = find != nullptr && address_of != nullptr && find(&device, index) == 0 &&
                      address_of(address, sizeof address, device) == 0;
    addresses.emplace_back(told ? address : "");
  }
  return addresses;
}

}  // namespace composer
