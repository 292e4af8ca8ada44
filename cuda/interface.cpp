#include "composer/cuda_library.h"

const char* composer_cuda_interface() { return CUDA_INTERFACE; }
