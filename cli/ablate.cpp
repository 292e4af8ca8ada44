// The subcommand ablate: what each algorithm of a recipe pays.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/study_command.h"
#include "nn/network/metric_sense.h"

namespace composer {
namespace {

/// The variant with only these algorithms of the recipe; it has no recipe if they are invalid
/// together.
StudyVariant variant_with(const Recipe& whole, const Words& names, std::string name,
                          std::string file) {
  StudyVariant variant{std::move(name), std::move(file), {}};
  auto recipe = whole;
  std::erase_if(recipe.algorithms, [&](const auto& algorithm) {
    return std::ranges::find(names, algorithm->name()) == names.end();
  });
  try {
    checked(recipe);
    variant.recipe = std::move(recipe);
  } catch (const UserError& error) {
    variant.problem = joined(error.problems(), "; ");
  }
  return variant;
}

StudyVariant variant_without(const Recipe& whole, const Words& left_out) {
  auto names = algorithm_names(whole);
  std::erase_if(
      names, [&](const auto& name) { return std::ranges::find(left_out, name) != left_out.end(); });
  return variant_with(whole, names, "without " + joined(left_out, " and "),
                      "without-" + joined(left_out, "-and-"));
}

std::vector<StudyVariant> variants_of(const Recipe& whole, const std::string& mode) {
  const auto names = algorithm_names(whole);
  if (mode == "add_one_in") {
    std::vector<StudyVariant> variants{variant_with(whole, {}, "none", "none")};
    for (const auto& name : names)
      variants.push_back(variant_with(whole, {name}, name + " alone", "only-" + name));
    return variants;
  }
  std::vector<StudyVariant> variants{{"all", "all", whole}};
  for (const auto& name : names) variants.push_back(variant_without(whole, {name}));
  if (mode == "pairs")
    for (size_t i = 0; i < names.size(); ++i)
      for (size_t j = i + 1; j < names.size(); ++j)
        variants.push_back(variant_without(whole, {names[i], names[j]}));
  return variants;
}

/// The interactions among the variants of the mode pairs.
std::vector<Interaction> interactions_of(const Words& names,
                                         const std::vector<StudyVariant>& variants) {
  std::vector<Interaction> interactions;
  size_t both = names.size();
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = i + 1; j < names.size(); ++j) {
      const std::array<size_t, 3> places{i + 1, j + 1, ++both};
      if (std::ranges::all_of(places,
                              [&](size_t place) { return variants[place].recipe.has_value(); }))
        interactions.push_back({names[i] + " and " + names[j], places});
    }
  return interactions;
}

}  // namespace

int ablate_command(const Words& words) {
  CLI::App app(
      "Finds out what each algorithm of a recipe pays: trains the recipe with and without it, each "
      "with several\nseeds, and compares. Started again after a kill, it continues.",
      "ablate");
  StudyOptions options;
  bool leave_one_out = false, add_one_in = false, pairs = false;
  app.add_flag("--leave_one_out", leave_one_out,
               "the recipe, and the recipe without each of its algorithms (the default)");
  app.add_flag("--add_one_in", add_one_in, "no algorithm, and each alone");
  app.add_flag("--pairs", pairs,
               "the recipe without each, and without every two: whether two do the same work");
  add_study_options(app, options, 3);
  if (!parse(app, words)) return 0;
  if (leave_one_out + add_one_in + pairs > 1)
    throw UserError("composer ablate: give one of --leave_one_out, --add_one_in and --pairs");
  const std::string mode = pairs ? "pairs" : add_one_in ? "add_one_in" : "leave_one_out";
  check_study_options("ablate", options, overrides_of(app));
  const auto recipe = recipe_of(app, options.file);
  const auto names = algorithm_names(recipe);
  if (names.empty())
    throw UserError("composer ablate: " + options.file +
                    " has no algorithms; give some with --algorithms, for instance --algorithms "
                    "blurpool label_smoothing");
  if (mode == "pairs" && names.size() < 2)
    throw UserError("--pairs: needs two algorithms at least; " + options.file + " has " + names[0]);

  const auto variants = variants_of(recipe, mode);
  StudyProgress progress("ablate", options, recipe, {{"mode", mode}});
  progress.study().title = "ablation of " + name_of_recipe(options.file);
  if (mode == "pairs") {
    progress.study().interactions = interactions_of(names, variants);
    progress.study().notes.emplace_back(
        "interaction: what the two do together beyond what each does: all - without one - without "
        "the other + without both; " +
        std::string(smaller_is_better(progress.study().metric) ? "above" : "below") +
        " 0 they do the same work in part");
  }
  for (const auto& variant : variants)
    if (!variant.recipe) log::warn(variant.name + ": not possible: " + variant.problem);
  progress.train(variants);
  return progress.finish();
}

}  // namespace composer
