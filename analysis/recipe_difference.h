// What sets the recipes of several runs apart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/run.h"

namespace composer {

struct RecipeDifference {
  std::string key;       ///< dotted
  std::string settings;  ///< of a component: those that all runs which have it agree on
  std::vector<std::optional<std::string>>
      values;  ///< of each run; nothing where it has no such key
};

/// In the recipes' order, without where the runs lie and how they are called. A component that some
/// runs lack is an entry of its own, "algorithms.blurpool", whose value is "on".
std::vector<RecipeDifference> recipe_differences(const std::vector<Run>& runs);

}  // namespace composer
