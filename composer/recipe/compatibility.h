// What an algorithm needs of a recipe, and what it cannot stand beside.
#pragma once

#include <string>
#include <vector>

#include "base/params/value.h"

namespace composer {

/// An algorithm T declares it by `static Compatibility compatibility()`; a recipe that breaks it is
/// refused before the run, with the reason. Naming a pair on one side is enough.
struct Compatibility {
  struct Exclusion {
    std::string algorithm;
    std::string reason;  ///< for instance "both give each image a second label"
  };
  /// Wherever the recipe has `key`, it has one of `values` there.
  struct Need {
    std::string key;  ///< dotted; `*` stands for any one name: "train_dataset.*.transforms.flip"
    std::vector<std::string> values;  ///< as --dump writes them
    std::string reason;
  };

  std::vector<Exclusion> excludes{};
  std::vector<Need> needs{};
};

/// What one algorithm of a recipe declares, and where the recipe names it.
struct Declared {
  std::string name;
  Origin origin;
  Compatibility compatibility;
};

/// Adds each declaration that a recipe breaks to `problems`. recipe: resolved, with every key.
void check(const std::vector<Declared>& algorithms, const Value& recipe, Problems& problems);

}  // namespace composer
