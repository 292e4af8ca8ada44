// Recipes of runs, as markup.
#pragma once

#include <string>
#include <vector>

#include "analysis/run.h"

namespace composer {

/// The resolved recipe as it stands in the run's folder; empty where there is none.
std::string recipe_text(const Run& run);

/// A row for each key that differs (recipe_differences), a column a run.
std::string difference_table(const std::vector<Run>& runs);

}  // namespace composer
