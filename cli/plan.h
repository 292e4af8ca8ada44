// The text of `composer train --plan`.
#pragma once

#include <string>

#include "base/run_context.h"
#include "composer/recipe/recipe.h"

namespace composer {

/// The text of --plan: the length of the run, the order of algorithms at each event, the layers
/// that surgery replaces, and the schedule. Missing data are replaced by the published size of the
/// set, which the text says; UserError if there is none.
std::string plan(const Recipe& recipe, const RunContext& context);

}  // namespace composer
