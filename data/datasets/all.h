// The data sets that come with composer.
#pragma once

#include "composer/recipe/registry.h"

namespace composer {

void add_builtin_datasets(Registry& registry);

}  // namespace composer
