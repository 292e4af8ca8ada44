#include "composer/recipe/overrides.h"

#include <algorithm>
#include <set>
#include <utility>

#include "composer/recipe/kinds.h"
#include "composer/recipe/utf8.h"

namespace composer {
namespace {

bool is_option(const std::string& word) {
  if (!word.starts_with('-') || word == "-inf" || word == "-nan") return false;
  return word.size() < 2 || !(std::isdigit(static_cast<unsigned char>(word[1])) || word[1] == '.');
}

/// `word` for a message: what is not UTF-8 becomes '?'.
std::string shown(std::string word) {
  for (size_t bad; (bad = find_invalid_utf8(word)) != std::string::npos;) word[bad] = '?';
  return word;
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
                          std::string("'").append(shown(word)) + "' is not UTF-8 text"});
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
  Value* map = key.map;
  for (size_t i = 0;; ++i) {
    if (map->kind == Value::Kind::null) map->kind = Value::Kind::map;
    if (map->kind != Value::Kind::map) return;  // reading will say so
    if (i + 1 == key.below.size()) break;
    if (!map->find(key.below[i])) map->set(key.below[i], Value::map(given.origin), given.origin);
    map = map->find(key.below[i]);
  }
  map->set(key.below.back(), count == 0 ? Value::scalar("true", given.origin) : given.value(),
           given.origin);
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
