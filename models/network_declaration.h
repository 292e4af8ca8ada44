// What a network of this folder tells of itself. NAME.cpp does so in a function NAME_network(),
// which the build finds and calls (CMakeLists.txt): no other file has to know of the network.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/loading/image_size.h"
#include "composer/recipe/registry.h"

namespace composer {

/// A name that a network has elsewhere, in torchvision above all, and the parameters that make the
/// component that network; all others are as they are by default.
struct KnownName {
  std::string name;  ///< "resnext50_32x4d"
  std::vector<std::pair<std::string, std::string>> parameters;
};

struct NetworkDeclaration {
  std::string component;  ///< its name in recipes, "resnet"
  ImageSize image;        ///< what it was made for
  std::vector<KnownName> known_names;
  std::function<void(Registry& registry)> add;
};

/// doc: one line about it.
template <class Network>
NetworkDeclaration declare_network(const std::string& component, const std::string& doc,
                                   ImageSize image, std::vector<KnownName> known_names = {}) {
  return {component, image, std::move(known_names),
          [component, doc](Registry& registry) { registry.models.add<Network>(component, doc); }};
}

/// Names that are values of the parameter model_name.
std::vector<KnownName> by_model_name(const std::vector<std::string>& names);

/// Of all networks of this folder.
const std::vector<NetworkDeclaration>& network_declarations();

}  // namespace composer
