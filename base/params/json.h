// Recipes as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/params/value.h"

namespace composer {

/// Scalars without quotes become numbers, true or false where they read as such; `null` and nothing
/// become null.
nlohmann::ordered_json json_of(const Value& value);

/// The keys of a recipe's text by their dotted paths; lists and empty maps as texts on one line.
/// Empty for a text that is no recipe.
std::vector<std::pair<std::string, nlohmann::ordered_json>> flat_recipe(const std::string& recipe);

/// A recipe's text as one object; null for a text that is no recipe.
nlohmann::ordered_json recipe_json(const std::string& recipe);

}  // namespace composer
