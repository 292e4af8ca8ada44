#include "composer/recipe/overrides.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/params/kinds.h"
#include "base/params/utf8.h"
#include "composer/recipe/automatic.h"

namespace composer {
namespace {

bool is_option(const std::string& word) {
  if (!word.starts_with('-') || word == "-inf" || word == "-nan") return false;
  return word.size() < 2 || !(std::isdigit(static_cast<unsigned char>(word[1])) || word[1] == '.');
}

void place(Value& value, const Origin& origin) {
  value.origin = origin;
  for (Value& item : value.items) place(item, origin);
  for (auto& entry : value.entries) {
    entry.origin = origin;
    place(entry.value, origin);
  }
}

bool is_map(const Value& value) { return value.kind == Value::Kind::map; }

/// The words as maps; nothing, and a problem, where one is none.
std::optional<Value> maps_of(const Override& given, const RecipeKey& key, Problems& problems) {
  if (const Value whole = given.value(); whole.none() || is_automatic(whole)) return whole;
  Value all = Value::list();
  for (const std::string& word : given.words) {
    Problems wrong;
    const auto read = parse_yaml("word: " + word, "", wrong);
    const Value* const value = read && read->entries.size() == 1 ? read->find("word") : nullptr;
    const bool list = value != nullptr && value->kind == Value::Kind::list;
    if (wrong.empty() && list && std::ranges::all_of(value->items, is_map)) {
      all.items.insert(all.items.end(), value->items.begin(), value->items.end());
    } else if (wrong.empty() && value != nullptr && is_map(*value)) {
      all.items.push_back(*value);
    } else {
      problems.push_back(
          {given.origin, key.path,
           "each word must be a map with the keys " + key.item_keys +
               " as YAML has it, patterns in quotes: \"{pattern: 'fc.*', ...}\", not '" + word +
               "'" + (wrong.empty() ? "" : " (" + wrong[0].message + ")")});
      return std::nullopt;
    }
  }
  place(all, given.origin);
  return all;
}

}  // namespace

Value Override::value() const {
  if (words.size() == 1) return Value::scalar(words[0], origin);
  Value list = Value::list(origin);
  for (const std::string& word : words) list.items.push_back(Value::scalar(word, origin));
  return list;
}

std::vector<Override> parse_overrides(const std::vector<std::string>& words, Problems& problems) {
  std::vector<Override> overrides;
  bool takes_words = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    Origin origin{.file = {}, .option = {}, .position = static_cast<int>(i) + 1};
    if (find_invalid_utf8(word) != std::string::npos) {
      if (takes_words) overrides.back().words.push_back(word);
      problems.push_back({takes_words ? overrides.back().origin : origin, "",
                          std::string("'").append(shown_utf8(word)) + "' is not UTF-8 text"});
      continue;
    }
    if (!is_option(word)) {
      if (takes_words)
        overrides.back().words.push_back(word);
      else
        problems.push_back({origin, "", "'" + word + "' belongs to no option"});
      continue;
    }
    const size_t equals = word.find('=');
    const std::string key = word.starts_with("--") ? word.substr(2, equals - 2) : "";
    takes_words = equals == std::string::npos;
    if (key.empty()) {
      problems.push_back({origin, "", "'" + word + "' is no option; write --key value"});
      takes_words = false;
      continue;
    }
    origin.option = key;
    overrides.push_back({key, {}, std::move(origin)});
    if (!takes_words) overrides.back().words.push_back(word.substr(equals + 1));
  }
  return overrides;
}

void prefer_evaluation(std::vector<const RecipeKey*>& meant) {
  const auto is_of = [](ChoiceKey choice) {
    return [beginning = path_of(choice, "")](const RecipeKey* key) {
      return key->path.starts_with(beginning);
    };
  };
  if (std::ranges::any_of(meant, is_of(ChoiceKey::val_dataset)))
    std::erase_if(meant, is_of(ChoiceKey::train_dataset));
}

void apply(const Override& given, const RecipeKey& key, Problems& problems) {
  const size_t count = given.words.size();
  if (count == 0 && !key.flag) {
    problems.push_back({given.origin, key.path,
                        key.list ? "needs a value; 'none' is an empty list" : "needs a value"});
    return;
  }
  if (count > 1 && !key.list) {
    std::string all;
    for (const std::string& word : given.words) all += " '" + word + "'";
    problems.push_back(
        {given.origin, key.path, "takes one value, not " + std::to_string(count) + ":" + all});
    return;
  }
  Value value = count == 0 ? Value::scalar("true", given.origin) : given.value();
  if (!key.item_keys.empty()) {
    auto maps = maps_of(given, key, problems);
    if (!maps) return;
    value = std::move(*maps);
  }
  Value* map = key.map;
  for (size_t i = 0;; ++i) {
    if (map->kind == Value::Kind::null) map->kind = Value::Kind::map;
    if (map->kind != Value::Kind::map) return;  // reading will say so
    if (i + 1 == key.below.size()) break;
    if (!map->find(key.below[i])) map->set(key.below[i], Value::map(given.origin), given.origin);
    map = map->find(key.below[i]);
  }
  map->set(key.below.back(), std::move(value), given.origin);
}

bool has_suffix(const std::string& path, const std::string& suffix) {
  return path == suffix || path.ends_with("." + suffix);
}

std::vector<std::string> endings(const std::vector<std::string>& paths, const std::string& word) {
  const auto parts = std::ranges::count(word, '.') + 1;
  std::set<std::string> found;
  for (const std::string& path : paths) {
    size_t start = path.size();
    long count = 0;
    while (start != std::string::npos && count < parts) {
      start = start == 0 ? std::string::npos : path.rfind('.', start - 1);
      ++count;
    }
    if (count == parts) found.insert(start == std::string::npos ? path : path.substr(start + 1));
  }
  return {found.begin(), found.end()};
}

}  // namespace composer
