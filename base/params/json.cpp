#include "base/params/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

Json scalar_json(const Value& value) {
  const auto& text = value.text;
  if (value.quoted) return text;
  if (text == "true" || text == "false") return text == "true";
  if (text.empty() || text == "null" || text == "~") return nullptr;
  if (const auto whole = to_number<int64_t>(text)) return *whole;
  if (const auto real = to_number<double>(text); real && std::isfinite(*real)) return *real;
  return text;
}

void flatten(const Value& value, const std::string& path,
             std::vector<std::pair<std::string, Json>>& out) {
  if (value.kind == Value::Kind::map && !value.entries.empty())
    for (const auto& entry : value.entries)
      flatten(entry.value, path.empty() ? entry.key : path + "." + entry.key, out);
  else if (value.kind == Value::Kind::scalar)
    out.emplace_back(path, scalar_json(value));
  else
    out.emplace_back(path, one_line(value));
}

std::optional<Value> parsed(const std::string& recipe) {
  Problems problems;
  auto root = parse_yaml(recipe, "", problems);
  if (!root || root->kind != Value::Kind::map || root->entries.empty()) return std::nullopt;
  return root;
}

}  // namespace

Json json_of(const Value& value) {
  if (value.kind == Value::Kind::scalar) return scalar_json(value);
  if (value.kind == Value::Kind::null) return nullptr;
  if (value.kind == Value::Kind::list) {
    auto list = Json::array();
    for (const auto& item : value.items) list.push_back(json_of(item));
    return list;
  }
  auto map = Json::object();
  for (const auto& entry : value.entries) map[entry.key] = json_of(entry.value);
  return map;
}

std::vector<std::pair<std::string, Json>> flat_recipe(const std::string& recipe) {
  std::vector<std::pair<std::string, Json>> flat;
  if (const auto root = parsed(recipe)) flatten(*root, "", flat);
  return flat;
}

Json recipe_json(const std::string& recipe) {
  const auto root = parsed(recipe);
  return root ? json_of(*root) : Json();
}

}  // namespace composer
