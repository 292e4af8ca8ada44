# cmake -DOUTPUT=x.cpp -DFOLDER=yamls "-DRECIPES=quickstart models/resnet50" -P EmbedRecipes.cmake
# Writes a source file that holds the recipes' text.
separate_arguments(RECIPES)
set(entries "")
foreach(recipe ${RECIPES})
  file(READ ${FOLDER}/${recipe}.yaml text)
  string(APPEND entries "    {\"${recipe}\", R\"RECIPE(${text})RECIPE\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"composer/recipe/embedded_recipes.h\"

namespace composer {

const std::vector<EmbeddedRecipe>& embedded_recipes() {
  static const std::vector<EmbeddedRecipe> recipes = {
${entries}  };
  return recipes;
}

}  // namespace composer
")
