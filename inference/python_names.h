// Whether other libraries take a network's weights, and under which names.
#pragma once

#include <string>

#include "inference/from_checkpoint.h"
#include "nn/network/library_names.h"

namespace composer {

/// The names that the library, "torchvision" or "timm", has for the network's tensors. Warns where
/// the library's network computes something else, and where surgery changed what this one computes:
/// the library would refuse the weights, or load them and compute something else. UserError for
/// another library, and for a network that it does not have.
LibraryNames names_in(const TakenNetwork& taken, const std::string& library);

}  // namespace composer
