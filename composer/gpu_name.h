#pragma once

#include <string>

namespace composer {

/// As its driver names it, "NVIDIA H200"; empty where there is no GPU of that index, or no name.
std::string gpu_name(int index);

}  // namespace composer
