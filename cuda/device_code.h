// For which GPUs the kernels of this library were compiled.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace composer::cuda {

/// Why `device` does not run the kernels; empty where it does.
std::string refusal_of(at::Device device);

}  // namespace composer::cuda
