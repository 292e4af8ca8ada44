#include "models/all.h"

#include "models/network_declaration.h"

namespace composer {

void add_builtin_models(Registry& registry) {
  for (const auto& network : network_declarations()) network.add(registry);
}

}  // namespace composer
