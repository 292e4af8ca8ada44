// The GPUs for which this library's kernels were compiled.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace composer::cuda {

/// Why `device` cannot run the kernels; empty if it can.
std::string refusal_of(at::Device device);

}  // namespace composer::cuda
