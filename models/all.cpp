#include "models/all.h"

namespace composer {

void add_builtin_models(Registry& registry) {
  for (const auto& network : network_declarations()) network.add(registry);
}

const std::vector<NamedModel>& named_models() {
  static const std::vector<NamedModel> all = [] {
    std::vector<NamedModel> models;
    for (const auto& network : network_declarations()) {
      for (const auto& known : network.known_names)
        models.push_back({known, network.component, network.image});
      models.push_back({{network.component, {}}, network.component, network.image});
    }
    return models;
  }();
  return all;
}

}  // namespace composer
