// The command line of eval and predict, which use trained weights.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "composer/recipe/recipe.h"

namespace composer {

/// The name of a class; its index where it has none.
std::string class_name(const std::vector<std::string>& names, int64_t index);

struct UseOptions {
  std::string file, load_path;

  void add_to(CLI::App& app);
};

/// The recipe for using the weights at load_path. It loads nothing but the weights and reads no run
/// folder. Throws UserError.
Recipe resolve_for_use(const UseOptions& options, const CLI::App& app);

}  // namespace composer
