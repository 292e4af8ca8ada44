// --plan: what a recipe would do, without training.
#pragma once

#include <string>

#include "base/run_context.h"
#include "composer/recipe/recipe.h"

namespace composer {

/// The run's length, who runs at which event, what surgery replaces, and how learning rate and
/// sizes move. Where the data are missing it takes the set's published size and says so. UserError
/// when there is neither.
std::string plan(const Recipe& recipe, const RunContext& context);

}  // namespace composer
