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

std::vector<std::string> gpu_addresses() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == nullptr) return {};
  using Initialize = int(unsigned flags);
  using Count = int(int* count);
  using Find = int(int* device, int index);
  using AddressOf = int(char* address, int bytes, int device);
  auto* const initialize = reinterpret_cast<Initialize*>(dlsym(driver, "cuInit"));
  auto* const count_all = reinterpret_cast<Count*>(dlsym(driver, "cuDeviceGetCount"));
  auto* const find = reinterpret_cast<Find*>(dlsym(driver, "cuDeviceGet"));
  auto* const address_of = reinterpret_cast<AddressOf*>(dlsym(driver, "cuDeviceGetPCIBusId"));
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
