// The algorithms that come with the library, and nothing else.
#pragma once

#include "algorithms/all.h"
#include "composer/recipe/registry.h"

namespace composer::test {

inline const Registry& known() {
  static const Registry registry = [] {
    Registry all;
    add_builtin_algorithms(all);
    return all;
  }();
  return registry;
}

}  // namespace composer::test
