// The files of yamls/, which the build copies into the program (cmake/EmbedRecipes.cmake).
#pragma once

#include <string_view>
#include <vector>

namespace composer {

struct EmbeddedRecipe {
  std::string_view path;  ///< under yamls/, without ending: "models/resnet50"
  std::string_view text;
};

const std::vector<EmbeddedRecipe>& embedded_recipes();

}  // namespace composer
