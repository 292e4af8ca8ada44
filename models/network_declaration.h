// The declaration of one network of this folder. NAME.cpp declares its network in a function
// NAME_network(), which the build finds and calls (CMakeLists.txt): no other file names the
// network.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/loading/image_size.h"
#include "composer/recipe/registry.h"

namespace composer {

/// A network's name in another library, above all torchvision, and the component's parameters that
/// make that network; all other parameters have their defaults.
struct KnownName {
  std::string name;  ///< "resnext50_32x4d"
  std::vector<std::pair<std::string, std::string>> parameters;
};

struct NetworkDeclaration {
  std::string component;  ///< the network's name in recipes, "resnet"
  ImageSize image;        ///< the image size that the network was made for
  std::vector<KnownName> known_names;
  std::function<void(Registry& registry)> add;
};

/// doc: one line about the network.
template <class Network>
NetworkDeclaration declare_network(const std::string& component, const std::string& doc,
                                   ImageSize image, std::vector<KnownName> known_names = {}) {
  return {component, image, std::move(known_names),
          [component, doc](Registry& registry) { registry.models.add<Network>(component, doc); }};
}

/// Known names from pairs whose first value is a model_name.
std::vector<KnownName> by_model_name(const auto& sizes) {
  std::vector<KnownName> known;
  for (const auto& [name, size] : sizes)
    known.push_back({std::string(name), {{"model_name", std::string(name)}}});
  return known;
}

/// The declarations of all networks of this folder.
const std::vector<NetworkDeclaration>& network_declarations();

}  // namespace composer
