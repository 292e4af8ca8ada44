// Stands in for the NVIDIA driver's library. STAND_IN_CUINIT: what cuInit answers; STAND_IN_DRIVER:
// the driver's version.
#include <cstdio>

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

int cuDriverGetVersion(int* version) {
  *version = number("STAND_IN_DRIVER", 13000);
  return 0;
}
}
