#include <filesystem>
#include <utility>

#include "base/url_secrets.h"
#include "composer/recipe/automatic.h"
#include "composer/recipe/dataset_keys.h"
#include "composer/recipe/recipe.h"

namespace composer {
namespace {

template <class Base>
void dump(Value& root, ChoiceKey key, const std::shared_ptr<ComponentOf<Base>>& component) {
  if (!component) return;
  Value map = Value::map();
  map.set(component->name(), write_fields(component->fields()));
  root.set(std::string(name(key)), std::move(map));
}

template <class Base>
void dump(Value& root, ChoiceKey key,
          const std::vector<std::shared_ptr<ComponentOf<Base>>>& components) {
  Value map = components.empty() ? Value::list() : Value::map();
  for (const auto& component : components)
    map.set(component->name(), write_fields(component->fields()));
  root.set(std::string(name(key)), std::move(map));
}

/// By name: the set, and how it is evaluated on.
Value tree(const std::vector<NamedEvaluation>& evaluators) {
  Value sets = Value::map();
  for (const auto& [name, dataset, given] : evaluators) {
    Value chosen = Value::map();
    chosen.set(dataset->name(), write_fields(dataset->fields()));
    auto options = given;
    Value set = write_fields(collect(options));
    set.set("dataset", std::move(chosen));
    sets.set(name, std::move(set));
  }
  return sets;
}

/// The value's texts without user, password and query of addresses.
void hide_secrets(Value& value) {
  value.text = address_without_secrets(std::move(value.text));
  for (Value& item : value.items) hide_secrets(item);
  for (auto& entry : value.entries) hide_secrets(entry.value);
}

std::string yaml_without_secrets(Value root) {
  hide_secrets(root);
  return to_yaml(root);
}

}  // namespace

Value tree(const Recipe& recipe) {
  Value root = Value::map();
  const bool split = recipe.options.split.val > 0;
  for_each_choice(recipe, [&](ChoiceKey key, const auto& chosen) {
    if (!split || key != ChoiceKey::val_dataset) dump(root, key, chosen);
  });
  if (!recipe.evaluators.empty()) root.set(evaluators_key, tree(recipe.evaluators));
  TrainerOptions options = recipe.options;
  Value written = write_fields(collect(options));
  for (auto& [key, origin, value] : written.entries)
    if (key != "run_name" || !options.run_name.empty()) root.set(key, std::move(value));
  for (const auto& key : recipe.automatic) set_path(root, key, Value::scalar("auto"));
  return root;
}

std::string dump(const Recipe& recipe) { return yaml_without_secrets(tree(recipe)); }

Recipe checked(const Recipe& recipe, const Registry& known) { return resolve(tree(recipe), known); }

std::string dump_with_absolute_paths(const Recipe& recipe, Secrets secrets) {
  Value root = tree(recipe);
  for (const auto key : {ChoiceKey::train_dataset, ChoiceKey::val_dataset})
    if (Value* chosen = root.find(name(key)))
      for (auto& entry : chosen->entries) make_data_paths_absolute(entry.value);
  if (Value* sets = root.find(evaluators_key))
    for (auto& set : sets->entries)
      for (auto& entry : set.value.find("dataset")->entries) make_data_paths_absolute(entry.value);
  if (std::error_code none; std::filesystem::exists(recipe.options.load_path, none))
    root.set("load_path", Value::string(absolute_text(recipe.options.load_path)));
  return secrets == Secrets::kept ? to_yaml(root) : yaml_without_secrets(std::move(root));
}

std::string with_start_of(const std::string& dumped, const std::string& begun) {
  if (dumped.empty() || begun.empty()) return dumped;
  Problems problems;
  auto root = parse_yaml(dumped, "", problems);
  const auto before = parse_yaml(begun, "", problems);
  if (!root || !before || !problems.empty()) return dumped;
  for (const auto& entry : before->entries)
    if (entry.key.starts_with("load_")) root->set(entry.key, entry.value);
  return to_yaml(*root);
}

SplitOptions split_of(const std::string& dumped) {
  Problems problems;
  SplitOptions split;
  const auto root = parse_yaml(dumped, "", problems);
  if (const Value* value = root ? root->find("split") : nullptr)
    read_fields(*value, collect(split), "split", problems);
  return split;
}

}  // namespace composer
