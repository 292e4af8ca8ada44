#include <algorithm>
#include <filesystem>
#include <string_view>
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

/// The sets by name, with their options.
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

/// Removes user, password and query from addresses in the value's texts.
void hide_secrets(Value& value) {
  value.text = address_without_secrets(std::move(value.text));
  for (Value& item : value.items) hide_secrets(item);
  for (auto& entry : value.entries) hide_secrets(entry.value);
}

std::string yaml_without_secrets(Value root) {
  hide_secrets(root);
  return to_yaml(root);
}

/// Keys that never alter the weights, and keys that a checkpoint stores by itself.
constexpr std::string_view other_keys[] = {"seed",
                                           "grad_accum",
                                           "device",
                                           "on_nan",
                                           "autoresume",
                                           "progress_bar",
                                           "log_interval",
                                           "parallelism",
                                           "spatial_ranks",
                                           "dataloader.num_workers",
                                           "dataloader.prefetch_factor",
                                           "dataloader.pin_memory",
                                           "dataloader.persistent_workers",
                                           "dataloader.timeout",
                                           "dataloader.coefficient_cache"};
constexpr std::string_view other_prefixes[] = {"eval_", "evaluators", "run_", "save_", "load_"};

/// Whether `path` is a key that chooses components. alters: components that alter the weights, or
/// that do not.
bool chooses(const std::string& path, bool alters) {
  return std::ranges::any_of(choice_facts, [&](const auto& choice) {
    return choice.key == path && choice.alters == alters;
  });
}

bool matters(const std::string& path) {
  return !chooses(path, /*alters=*/false) &&
         std::ranges::find(other_keys, path) == std::end(other_keys) &&
         std::ranges::none_of(other_prefixes,
                              [&](auto prefix) { return path.starts_with(prefix); });
}

bool holds_components(const std::string& path) { return chooses(path, /*alters=*/true); }

/// Adds a line for each difference. A key that only one recipe has was unknown to the other's
/// program version and is skipped, unless it names a component.
void compare(const std::string& path, const Value& before, const Value& now,
             std::vector<std::string>& lines) {
  if (before.kind != Value::Kind::map && now.kind != Value::Kind::map) {
    const auto was = one_line(before), is = one_line(now);
    if (was != is)
      lines.push_back(path + ": the checkpoint's was " + was + ", this run's is " + is);
    return;
  }
  for (const auto& entry : before.entries) {
    const auto key = path.empty() ? entry.key : path + "." + entry.key;
    if (!matters(key)) continue;
    if (const auto* same = now.find(entry.key))
      compare(key, entry.value, *same, lines);
    else if (holds_components(path))
      lines.push_back(key + ": the checkpoint's run had it, this one does not");
  }
  if (!holds_components(path)) return;
  for (const auto& entry : now.entries)
    if (before.find(entry.key) == nullptr)
      lines.push_back(path + "." + entry.key + ": the checkpoint's run did not have it");
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

std::vector<std::string> recipe_changes(const std::string& checkpoints, const std::string& runs) {
  Problems problems;
  const auto before = parse_yaml(checkpoints, "checkpoint", problems);
  const auto now = parse_yaml(runs, "recipe", problems);
  std::vector<std::string> lines;
  if (before && now && problems.empty()) compare("", *before, *now, lines);
  return lines;
}

std::string optimizer_of(const std::string& recipe) {
  Problems problems;
  const auto root = parse_yaml(recipe, "", problems);
  const auto* const chosen = root ? root->find(name(ChoiceKey::optimizer)) : nullptr;
  return chosen == nullptr || chosen->entries.empty() ? "" : chosen->entries[0].key;
}

std::vector<std::string> model_changes(const std::string& checkpoints, const std::string& runs) {
  auto lines = recipe_changes(checkpoints, runs);
  std::erase_if(lines,
                [](const auto& line) { return !line.starts_with(path_of(ChoiceKey::model, "")); });
  return lines;
}

}  // namespace composer
