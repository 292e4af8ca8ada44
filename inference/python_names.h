// Whether other libraries take a network's weights under the names they have.
#pragma once

#include <string>

#include "inference/from_checkpoint.h"

namespace composer {

/// library: "torchvision" or "timm", whose residual networks name their tensors as ours do. Warns
/// where surgery changed what the network computes: the library would refuse the weights, or load
/// them and compute something else. UserError for another library, and for a network that it does
/// not have.
void check_names(const TakenNetwork& taken, const std::string& library);

}  // namespace composer
