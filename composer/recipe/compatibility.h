// Requirements of an algorithm on the recipe, and algorithms that it excludes.
#pragma once

#include <string>
#include <vector>

#include "base/params/value.h"

namespace composer {

/// An algorithm T declares it by `static Compatibility compatibility()`. A recipe that violates it
/// is refused before the run, with the reason. It suffices if one of two algorithms names the
/// other.
struct Compatibility {
  struct Exclusion {
    std::string algorithm;
    std::string reason;  ///< for instance "both give each image a second label"
  };
  /// A key that must have one of `values` wherever it occurs in the recipe.
  struct Need {
    std::string key;  ///< dotted; `*` stands for any one name: "train_dataset.*.transforms.flip"
    std::vector<std::string> values;  ///< values as --dump writes them
    std::string reason;
  };

  std::vector<Exclusion> excludes{};
  std::vector<Need> needs{};
};

/// The declaration of one algorithm, and its position in the recipe.
struct Declared {
  std::string name;
  Origin origin;
  Compatibility compatibility;
};

/// Adds each violated declaration to `problems`. recipe: resolved, with every key.
void check(const std::vector<Declared>& algorithms, const Value& recipe, Problems& problems);

}  // namespace composer
