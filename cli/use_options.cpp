#include "cli/use_options.h"

#include "base/error.h"
#include "base/remote/fetched.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "composer/run/starting_point.h"
#include "inference/from_checkpoint.h"

namespace composer {
namespace {

/// The recipe with which the weights at `path` were trained.
RecipeFile recipe_inside(const std::string& path) {
  check_load_path(path);
  const auto local = fetched(path);
  auto text = read_provenance(weights_file(local)).recipe;
  if (!text.empty()) return {path, std::move(text)};
  if (is_checkpoint(local))
    throw UserError("-f: missing: " + path +
                    " was made from C++ without a recipe; name one that describes its network");
  throw UserError("-f: missing: " + path +
                  " holds only weights; name the recipe that describes their network");
}

}  // namespace

std::string class_name(const std::vector<std::string>& names, int64_t index) {
  return index < std::ssize(names) ? names[static_cast<size_t>(index)] : std::to_string(index);
}

void UseOptions::add_to(CLI::App& app) {
  add_recipe(app, file, "the one inside the checkpoint");
  app.add_option("--load_path", load_path,
                 "the weights: a checkpoint folder (runs/NAME/checkpoints/latest), a folder that "
                 "`composer export` wrote,\na .safetensors or a .pth file");
  app.footer(
      "Any key of the recipe can be given as --dotted.key VALUE. Weights of another network, or "
      "of the same\nwith other surgery, are refused; --load_strict false uses them all the "
      "same.");
}

Recipe resolve_for_use(const UseOptions& options, const CLI::App& app) {
  Words overrides = overrides_of(app);
  if (!options.load_path.empty())
    overrides.insert(overrides.end(), {"--load_path", options.load_path});
  const auto given = [&](const std::string& key) {
    return std::ranges::any_of(overrides, [&](const auto& word) {
      return word == "--" + key || word.starts_with("--" + key + "=");
    });
  };
  if (given("load_ignore"))
    throw UserError("load_ignore: is for training: what it leaves out would be random");
  const UserError missing(
      "load_path: missing: give --load_path a checkpoint folder, .safetensors or .pth file");
  if (options.file.empty() && options.load_path.empty()) throw missing;
  auto recipe =
      resolve(options.file.empty() ? recipe_inside(options.load_path) : find_recipe(options.file),
              overrides, registry(), {.evaluation = true, .options = option_names(app)});
  if (recipe.options.load_path.empty()) throw missing;
  use_weights_alone(recipe, !given("load_strict") || recipe.options.load_strict);
  return recipe;
}

}  // namespace composer
