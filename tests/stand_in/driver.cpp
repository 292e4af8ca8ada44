// Stands in for the NVIDIA driver's library. STAND_IN_CUINIT: what cuInit answers; STAND_IN_DRIVER:
// the driver's version; STAND_IN_GPUS: how many there are; STAND_IN_PCI: their addresses, with
// commas.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "tests/stand_in/log.h"

using composer::stand_in::number;

extern "C" {

int cuInit(unsigned) { return number("STAND_IN_CUINIT", 0); }

int cuGetErrorString(int error, const char** words) {
  *words = error == 100 ? "no CUDA-capable device is detected" : nullptr;
  return error == 100 ? 0 : 1;
}

int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}

int cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<size_t>(bytes), "stand-in");
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = number("STAND_IN_GPUS", 1);
  return 0;
}

int cuDeviceGetPCIBusId(char* address, int bytes, int device) {
  const char* const all = std::getenv("STAND_IN_PCI");
  std::istringstream list(all == nullptr ? "" : all);
  std::string one;
  for (int i = 0; i <= device; ++i) std::getline(list, one, ',');
  std::snprintf(address, static_cast<size_t>(bytes), "%s", one.c_str());
  return list ? 0 : 1;
}

int cuDriverGetVersion(int* version) {
  *version = number("STAND_IN_DRIVER", 13000);
  return 0;
}
}
