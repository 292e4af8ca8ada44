// What the NVIDIA driver tells of GPUs.
#pragma once

#include <string>
#include <vector>

namespace composer {

/// As its driver names it, "NVIDIA H200"; empty where there is no GPU of that index, or no name.
std::string gpu_name(int index);

/// Where the GPUs that this process sees are on the PCI bus, "0000:1B:00.0", in CUDA's order: that
/// of the whole GPU for a part of one, empty for one whose place the driver does not tell. None
/// where the driver offers no GPU. Opens the driver alone, not LibTorch's CUDA library.
std::vector<std::string> gpu_addresses();

}  // namespace composer
