// The names under which networks are known elsewhere, torchvision's above all.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/loading/image_size.h"

namespace composer {

/// A component with the parameters that make it the network of that name; all others as they are by
/// default.
struct NamedModel {
  std::string name;       ///< "resnext50_32x4d"
  std::string component;  ///< "resnet"
  std::vector<std::pair<std::string, std::string>> parameters;
  ImageSize image;  ///< what the network was made for
};

/// By families and depths. Components have their own names too.
const std::vector<NamedModel>& named_models();

}  // namespace composer
