// The speed-up methods that come with composer.
#pragma once

#include "composer/recipe/registry.h"

namespace composer {

void add_builtin_algorithms(Registry& registry);

}  // namespace composer
