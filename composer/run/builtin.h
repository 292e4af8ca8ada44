// The components that belong to the loop itself.
#pragma once

#include "composer/recipe/registry.h"

namespace composer {

/// Registers the built-in optimizers, schedulers, callbacks and loggers.
void add_builtin_core(Registry& registry);

}  // namespace composer
