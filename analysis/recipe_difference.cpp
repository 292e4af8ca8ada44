#include "analysis/recipe_difference.h"

#include <algorithm>
#include <map>
#include <set>

namespace composer {
namespace {

const std::set<std::string> names_and_places{"run_name", "run_dir", "autoresume", "progress_bar"};

/// Of callbacks that every run from a recipe has, the settings where it does not name them.
const RecipeKeys of_every_run{{"callbacks.speed_monitor.window_size", "100"},
                              {"callbacks.image_monitor.num_images", "16"},
                              {"callbacks.image_monitor.interval", "0ba"}};

using KeyMap = std::map<std::string, std::string>;

/// "algorithms.blurpool" of "algorithms.blurpool.min_channels"; all of a shorter key.
std::string component_of(const std::string& key) {
  const size_t first = key.find('.');
  if (first == std::string::npos) return key;
  return key.substr(0, key.find('.', first + 1));
}

/// The keys of all runs, each where its run's recipe has it.
std::vector<std::string> keys_in_order(const std::vector<Run>& runs) {
  std::vector<std::string> keys;
  for (const auto& run : runs) {
    auto place = keys.begin();
    for (const auto& [key, value] : run.recipe) {
      const auto found = std::ranges::find(keys, key);
      place = (found == keys.end() ? keys.insert(place, key) : found) + 1;
    }
  }
  return keys;
}

using Values = std::vector<std::optional<std::string>>;

Values values_of(const std::vector<KeyMap>& recipes, const std::string& key) {
  Values values;
  for (const auto& recipe : recipes) {
    const auto found = recipe.find(key);
    values.push_back(found == recipe.end() ? std::nullopt
                                           : std::optional<std::string>(found->second));
  }
  return values;
}

/// Whether those that are there differ.
bool differ(const Values& values) {
  std::set<std::string> distinct;
  for (const auto& value : values)
    if (value) distinct.insert(*value);
  return distinct.size() > 1;
}

bool has_component(const KeyMap& recipe, const std::string& component) {
  if (recipe.contains(component)) return true;
  const auto next = recipe.lower_bound(component + ".");
  return next != recipe.end() && next->first.starts_with(component + ".");
}

/// A list that is empty in some recipes and has components in others is no setting.
bool is_parent(const std::vector<std::string>& keys, const std::string& key) {
  return std::ranges::any_of(keys, [&](const auto& other) { return other.starts_with(key + "."); });
}

/// The entry of a component that some runs lack.
RecipeDifference presence_of(const std::string& component, const std::vector<std::string>& keys,
                             const std::vector<KeyMap>& recipes) {
  std::string agreed;
  for (const auto& key : keys) {
    const auto values = values_of(recipes, key);
    if (component_of(key) != component || key == component || differ(values)) continue;
    const auto value =
        *std::ranges::find_if(values, [](const auto& one) { return one.has_value(); });
    agreed += (agreed.empty() ? "" : ", ") + key.substr(component.size() + 1) + " " + *value;
  }
  RecipeDifference presence{component, agreed, {}};
  for (const auto& recipe : recipes)
    presence.values.push_back(has_component(recipe, component) ? std::optional<std::string>("on")
                                                               : std::nullopt);
  return presence;
}

}  // namespace

std::vector<RecipeDifference> recipe_differences(const std::vector<Run>& runs) {
  std::vector<KeyMap> recipes;
  for (const auto& run : runs) recipes.emplace_back(run.recipe.begin(), run.recipe.end());
  for (const auto& [key, value] : of_every_run)
    if (std::ranges::any_of(recipes,
                            [&key = key](const auto& recipe) { return recipe.contains(key); }))
      for (auto& recipe : recipes) recipe.try_emplace(key, value);
  const auto keys = keys_in_order(runs);
  std::vector<RecipeDifference> differences;
  std::set<std::string> named;
  for (const auto& key : keys) {
    if (names_and_places.contains(key) || is_parent(keys, key)) continue;
    const auto component = component_of(key);
    const bool lacking = std::ranges::any_of(
        recipes, [&](const auto& recipe) { return !has_component(recipe, component); });
    if (lacking && named.insert(component).second)
      differences.push_back(presence_of(component, keys, recipes));
    auto values = values_of(recipes, key);
    const bool sometimes = !lacking && std::ranges::count(values, Values::value_type()) > 0;
    if (key != component || !lacking)
      if (differ(values) || sometimes) differences.push_back({key, "", std::move(values)});
  }
  return differences;
}

}  // namespace composer
