// What the commands that use weights have in common on the command line.
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

/// A recipe for using weights: they are all that load_path gives, and no run folder is looked at.
/// UserError.
Recipe resolve_for_use(const UseOptions& options, const CLI::App& app);

}  // namespace composer
