// The stand-in for libcomposer_cuda.so is of this program's version, or of none.
#include <cstdlib>

#include "nn/device/cuda_library.h"

const char* composer_cuda_interface() {
  return std::getenv("STAND_IN_OTHER_VERSION") == nullptr ? CUDA_INTERFACE : "another";
}
