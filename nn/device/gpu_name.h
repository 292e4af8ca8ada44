// Reports of the NVIDIA driver about GPUs.
#pragma once

#include <string>
#include <vector>

namespace composer {

/// The driver's name of the GPU, "NVIDIA H200"; empty where there is no GPU of that index, or no
/// name.
std::string gpu_name(int index);

/// The PCI addresses, "0000:1B:00.0", of the GPUs that this process sees, in CUDA's order. A part
/// of a GPU (MIG) has the address of the whole GPU; an address that the driver does not report is
/// empty. Empty where the driver offers no GPU. Opens only the driver, not LibTorch's CUDA library.
std::vector<std::string> gpu_addresses();

}  // namespace composer
