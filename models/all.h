// The networks that come with composer, and their names in other libraries, above all torchvision.
#pragma once

#include <string>
#include <vector>

#include "models/network_declaration.h"

namespace composer {

void add_builtin_models(Registry& registry);

struct NamedModel : KnownName {
  std::string component;  ///< "resnet"
  ImageSize image;        ///< the image size that the network was made for
};

/// All families and depths, and the components by their own names.
const std::vector<NamedModel>& named_models();

}  // namespace composer
