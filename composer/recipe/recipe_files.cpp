#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "composer/recipe/embedded_recipes.h"
#include "composer/recipe/recipe.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
constexpr size_t max_bytes = 4 << 20;

std::string name_of(const EmbeddedRecipe& recipe) {
  return std::string(recipe.path.substr(recipe.path.rfind('/') + 1));
}

RecipeFile read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string text;
  for (char byte; text.size() <= max_bytes && stream.get(byte);) text += byte;
  if (!stream.is_open() || stream.bad()) throw UserError(path + ": cannot be read");
  if (text.size() > max_bytes) throw UserError(path + ": is too large for a recipe");
  if (text.find('\0') != std::string::npos)
    throw UserError(path + ": is not a recipe: not a text file");
  return {path, std::move(text)};
}

/// The recipe's name without the prefixes and endings that a user may write.
std::string_view bare_name(std::string_view text) {
  for (const std::string_view prefix : {"./", "composer/", "yamls/"})
    if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  for (const std::string_view ending : {".yaml", ".yml"})
    if (text.ends_with(ending)) text.remove_suffix(ending.size());
  return text;
}

bool looks_like_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".yaml") ||
         text.ends_with(".yml");
}

/// Whether `name` is the path, or an ending of it after a slash.
bool ends_in(std::string_view path, std::string_view name) {
  if (!path.ends_with(name)) return false;
  path.remove_suffix(name.size());
  return path.empty() || path.ends_with('/');
}

std::optional<RecipeFile> find_embedded(std::string_view name) {
  for (const EmbeddedRecipe& recipe : embedded_recipes())
    if (ends_in(recipe.path, name))
      return RecipeFile{"yamls/" + std::string(recipe.path) + ".yaml", std::string(recipe.text)};
  return std::nullopt;
}

}  // namespace

RecipeFile find_recipe(const std::string& text) {
  const auto embedded = find_embedded(bare_name(text));
  if (embedded && !looks_like_path(text)) return *embedded;
  std::error_code error;
  if (fs::is_directory(text, error)) {
    const auto of_run = fs::path(text) / "hparams.yaml";
    throw UserError(text + ": is a folder" +
                    (fs::exists(of_run, error) ? "; did you mean " + of_run.string() + "?"
                                               : "; give a recipe in it"));
  }
  if (fs::exists(text, error)) return read_file(text);
  if (embedded) return *embedded;
  const std::string_view name = bare_name(text);
  std::vector<std::string> names;
  for (const EmbeddedRecipe& recipe : embedded_recipes()) names.push_back(name_of(recipe));
  const std::string word(name.substr(name.rfind('/') + 1));
  const std::string near = nearest(word, names);
  throw UserError(
      text + ": no such file, and no recipe of that name" +
      (near.empty() ? "; the recipes are " + joined(names) : "; did you mean '" + near + "'?"));
}

bool names_recipe(const std::string& text) {
  if (find_embedded(bare_name(text))) return true;
  std::error_code error;
  return (text.ends_with(".yaml") || text.ends_with(".yml")) && fs::is_regular_file(text, error);
}

std::vector<RecipeDoc> list_recipes() {
  std::vector<RecipeDoc> docs;
  for (const EmbeddedRecipe& recipe : embedded_recipes()) {
    std::string_view first = recipe.text.substr(0, recipe.text.find('\n'));
    if (first.starts_with("#"))
      first.remove_prefix(std::min(first.size(), first.find_first_not_of("# ")));
    docs.push_back({name_of(recipe), std::string(first)});
  }
  return docs;
}

}  // namespace composer
