#include "composer/recipe/recipe_changes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/params/kinds.h"
#include "base/params/value.h"

namespace composer {
namespace {

/// Keys that never alter the weights, and those that a checkpoint has on its own.
constexpr std::array<std::string_view, 15> other_keys{
    "seed",
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
    "dataloader.coefficient_cache",
};
constexpr std::array<std::string_view, 5> other_prefixes{"eval_", "evaluators", "run_", "save_",
                                                         "load_"};

/// Whether `path` is a key that chooses components, which alter the weights or do not.
bool chooses(const std::string& path, bool alters) {
  return std::any_of(std::begin(choice_facts), std::end(choice_facts), [&](const auto& choice) {
    return choice.key == path && choice.alters == alters;
  });
}

bool matters(const std::string& path) {
  return !chooses(path, /*alters=*/false) &&
         std::find(other_keys.begin(), other_keys.end(), path) == other_keys.end() &&
         std::none_of(other_prefixes.begin(), other_prefixes.end(),
                      [&](auto prefix) { return path.starts_with(prefix); });
}

bool holds_components(const std::string& path) { return chooses(path, /*alters=*/true); }

/// A key that only one of them has is a key that one's program did not know, unless it names a
/// component.
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
