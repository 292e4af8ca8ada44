// The networks that come with composer.
#pragma once

#include "composer/recipe/registry.h"

namespace composer {

void add_builtin_models(Registry& registry);

}  // namespace composer
