// The subcommand schema: a JSON Schema of recipes.
#include "composer/recipe/schema.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/commands.h"

namespace composer {

int schema_command(const Words& words) {
  CLI::App app(
      "Prints a JSON Schema (draft 2020-12) of recipes, by which editors complete and check "
      "them:\n  composer schema > recipe.schema.json",
      "schema");
  if (!parse(app, words)) return 0;
  std::cout << recipe_schema().dump(2) << '\n';
  return 0;
}

}  // namespace composer
