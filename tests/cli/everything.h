// All components of the program, registered as composer::main does.
#pragma once

#include "algorithms/all.h"
#include "composer/recipe/registry.h"
#include "composer/run/builtin.h"
#include "data/datasets/all.h"
#include "models/all.h"

namespace composer {

inline void add_everything(Registry& registry) {
  add_builtin_core(registry);
  add_builtin_algorithms(registry);
  add_builtin_models(registry);
  add_builtin_datasets(registry);
}

/// A registry of these and nothing else.
inline const Registry& everything() {
  static const Registry registry = [] {
    Registry all;
    add_everything(all);
    return all;
  }();
  return registry;
}

}  // namespace composer
