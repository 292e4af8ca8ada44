#include "models/named_models.h"

#include "models/network_declaration.h"

namespace composer {

const std::vector<NamedModel>& named_models() {
  static const std::vector<NamedModel> all = [] {
    std::vector<NamedModel> models;
    for (const auto& network : network_declarations()) {
      for (const auto& known : network.known_names)
        models.push_back({known.name, network.component, known.parameters, network.image});
      models.push_back({network.component, network.component, {}, network.image});
    }
    return models;
  }();
  return all;
}

std::vector<KnownName> by_model_name(const std::vector<std::string>& names) {
  std::vector<KnownName> known;
  for (const auto& name : names) known.push_back({name, {{"model_name", name}}});
  return known;
}

}  // namespace composer
