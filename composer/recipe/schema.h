// A JSON Schema of recipes, for editors and other programs that read YAML.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "composer/recipe/registry.h"

namespace composer {

/// Of the recipes that name components of `known`: a schema of draft 2020-12
/// (https://json-schema.org/draft/2020-12/json-schema-core) with the keys, their types, ranges,
/// words, defaults and documentation. What it refuses in a file is refused by resolve(), where no
/// override on the command line mends it; but booleans are `true` and `false` alone. What several
/// keys must fulfil together is left to resolve().
nlohmann::ordered_json recipe_schema(const Registry& known = registry());

}  // namespace composer
