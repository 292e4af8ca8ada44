#include "nn/device/gpu_name.h"

#include "nn/device/cuda.h"

namespace composer {
namespace {

using Find = int(int* device, int index);

}  // namespace

std::string gpu_name(int index) {
  if (index >= open_cuda().gpus) return {};
  void* const driver = nvidia_driver();
  auto* const find = function_of<Find>(driver, "cuDeviceGet");
  auto* const name_of =
      function_of<int(char* name, int bytes, int device)>(driver, "cuDeviceGetName");
  char name[256] = "";
  int device = 0;
  if (find == nullptr || name_of == nullptr || find(&device, index) != 0 ||
      name_of(name, sizeof name, device) != 0)
    return {};
  return name;
}

std::vector<std::string> gpu_addresses() {
  void* const driver = nvidia_driver();
  auto* const initialize = function_of<int(unsigned flags)>(driver, "cuInit");
  auto* const count_all = function_of<int(int* count)>(driver, "cuDeviceGetCount");
  auto* const find = function_of<Find>(driver, "cuDeviceGet");
  auto* const address_of =
      function_of<int(char* address, int bytes, int device)>(driver, "cuDeviceGetPCIBusId");
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
