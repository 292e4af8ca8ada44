// A JSON Schema of recipes, for editors and other programs that read YAML.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "composer/recipe/registry.h"

namespace composer {

/// The schema of recipes with components of `known`, in draft 2020-12
/// (https://json-schema.org/draft/2020-12/json-schema-core) with the keys, their types, ranges,
/// words, defaults and documentation. Whatever it refuses, resolve() refuses too unless an override
/// on the command line corrects it; only booleans in other words than `true` and `false` are an
/// exception. Rules about several keys are left to resolve().
nlohmann::ordered_json recipe_schema(const Registry& known = registry());

}  // namespace composer
