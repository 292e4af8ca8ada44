#include "nn/device/cuda_library.h"

const char* composer_cuda_interface() { return CUDA_INTERFACE; }
