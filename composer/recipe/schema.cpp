#include "composer/recipe/schema.h"

#include <nlohmann/json.hpp>

#include "base/params/json.h"
#include "base/params/params.h"
#include "composer/recipe/automatic.h"
#include "composer/recipe/options.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

/// Whole numbers are written without a dot.
Json number_json(double number) {
  if (number == std::floor(number) && std::abs(number) < 1e15) return std::llround(number);
  return number;
}

/// The value that YAML reads from `word`: `true` and 7 need no quotes in a recipe.
Json word_json(const std::string& word) { return json_of(Value::scalar(word)); }

Json words_schema(const std::vector<std::string>& words) {
  auto all = Json::array();
  for (const auto& word : words) {
    all.push_back(word);
    if (const Json read = word_json(word); !read.is_string()) all.push_back(read);
  }
  return {{"enum", all}};
}

/// `schema` with the bounds of `rules`, or a number that they except.
Json with_bounds(Json schema, const Rules& rules) {
  auto exceptions = Json::array();
  for (const Rule& rule : rules) {
    if (rule.kind == Rule::Kind::in || rule.kind == Rule::Kind::at_least)
      schema["minimum"] = number_json(rule.low);
    if (rule.kind == Rule::Kind::in) schema["maximum"] = number_json(rule.high);
    if (rule.kind == Rule::Kind::above) schema["exclusiveMinimum"] = number_json(rule.low);
    if (rule.exception) exceptions.push_back(number_json(*rule.exception));
  }
  if (exceptions.empty()) return schema;
  return {{"anyOf", {schema, {{"enum", exceptions}}}}};
}

Json text_schema(const Rules& rules) {
  const auto words = std::ranges::find(rules, Rule::Kind::one_of, &Rule::kind);
  if (words != rules.end()) return words_schema(words->words);
  return {{"type", {"string", "number", "boolean", "null"}}};
}

/// A number with a unit, or a whole number of epochs (Time::parse).
Json time_schema(const Rules& rules) {
  Json schema = with_bounds({{"type", {"string", "integer"}}}, rules);
  schema["pattern"] =
      "^([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
      "([eE][pP]|[bB][aA]|[sS][pP]|[sS][eE][cC]|[dD][uU][rR])?$";
  return schema;
}

/// keys: those of a map of scalars, as in "{pattern, lr_scale}".
Json map_schema(std::string_view keys) {
  Json properties = Json::object();
  keys = keys.substr(1, keys.size() - 2);
  while (!keys.empty()) {
    const auto end = std::min(keys.find(", "), keys.size());
    properties[std::string(keys.substr(0, end))] = {
        {"type", {"string", "number", "boolean", "null"}}};
    keys.remove_prefix(std::min(end + 2, keys.size()));
  }
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

/// type: as in Field.
Json type_schema(std::string_view type, const Rules& rules) {
  constexpr std::string_view optional = " or none", list = "list of ";
  if (type == FieldType<Microbatches>::name())
    return {{"anyOf", {with_bounds({{"type", "integer"}}, rules), {{"enum", {"auto"}}}}}};
  if (type == FieldType<ClassWeights>::name()) {
    const Json number = with_bounds({{"type", "number"}}, rules), text{{"type", "string"}};
    return {{"anyOf",
             {number,
              text,
              {{"type", "array"}, {"items", {{"anyOf", {number, text}}}}},
              {{"type", "object"}, {"additionalProperties", number}},
              {{"enum", {nullptr}}}}}};
  }
  if (type.ends_with(optional)) {
    type.remove_suffix(optional.size());
    return {{"anyOf", {type_schema(type, rules), {{"enum", {nullptr, "none"}}}}}};
  }
  if (type.starts_with(list)) {
    type.remove_prefix(list.size());
    const Json item = type_schema(type, rules);
    return {{"anyOf", {{{"type", "array"}, {"items", item}}, item, {{"enum", {nullptr, "none"}}}}}};
  }
  if (type.starts_with('{')) return map_schema(type);
  if (type == FieldType<bool>::name()) return {{"type", "boolean"}};
  if (type == FieldType<int64_t>::name()) return with_bounds({{"type", "integer"}}, rules);
  if (type == FieldType<double>::name()) return with_bounds({{"type", "number"}}, rules);
  if (type == FieldType<Time>::name()) return time_schema(rules);
  return text_schema(rules);
}

/// path: the map's path, with * for a component.
Json fields_schema(const FieldSet& set, std::string doc, const std::string& path);

Json field_schema(const Field& field, const std::string& path) {
  if (!field.read) return fields_schema(field.nested, field.doc, path);
  const std::string rules = rules_text(field.rules);
  Json schema{
      {"description", field.doc + " (" + field.type + (rules.empty() ? "" : ", ") + rules + ")"}};
  if (!field.required) schema["default"] = json_of(field.write());
  const Json type = type_schema(field.type, field.rules);
  if (find_automatic(path) == nullptr)
    schema.update(type);
  else
    schema["anyOf"] = {type, {{"enum", {"auto"}}}};
  return schema;
}

/// The schema of a map of the fields; null stands for an empty map.
Json fields_schema(const FieldSet& set, std::string doc, const std::string& path) {
  Json schema{{"description", std::move(doc)},
              {"type", {"object", "null"}},
              {"properties", Json::object()},
              {"additionalProperties", false}};
  for (const Field& field : set.fields) {
    schema["properties"][field.name] = field_schema(field, join_path(path, field.name));
    if (field.required) schema["required"].push_back(field.name);
  }
  return schema;
}

constexpr auto required_choices = {ChoiceKey::model, ChoiceKey::train_dataset};

bool needed(ChoiceKey key) {
  return std::ranges::find(required_choices, key) != required_choices.end();
}

Json reference_to(const CatalogBase& catalog) { return {{"$ref", "#/$defs/" + catalog.plural()}}; }

/// The schema of components by name with their parameters. key: the key that chooses one.
Json catalog_schema(const CatalogBase& catalog, const std::string& key) {
  Json schema{{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
  for (const auto& name : catalog.names())
    schema["properties"][name] =
        fields_schema(catalog.find(name)->fields(), catalog.doc(name), key + ".*");
  return schema;
}

/// The schema of a key that chooses components: names, names with parameters, or a list of both. It
/// may be empty unless it is required.
Json choice_schema(const ChoiceFacts& choice, bool required, const CatalogBase& catalog) {
  Json map = reference_to(catalog), item = reference_to(catalog);
  item["minProperties"] = item["maxProperties"] = 1;
  auto items =
      Json{{"type", "array"}, {"items", {{"anyOf", {Json{{"enum", catalog.names()}}, item}}}}};
  if (!choice.several) map["maxProperties"] = items["maxItems"] = 1;
  auto words = Json(catalog.names());
  if (!required) words.insert(words.end(), {"none", nullptr});
  return {{"description", (choice.several ? "any " + catalog.plural() : "one " + catalog.kind()) +
                              ", by name or with parameters: composer list " + catalog.plural()},
          {"anyOf", {Json{{"enum", words}}, map, items}}};
}

/// The schema of evaluation sets by name.
Json evaluators_schema(const CatalogBase& datasets) {
  EvaluatorOptions options;
  Json set = fields_schema(collect(options), "a set that is evaluated on",
                           std::string(evaluators_key) + ".*");
  set["type"] = "object";
  set["properties"]["dataset"] = choice_schema({"dataset", false, false}, true, datasets);
  set["required"].push_back("dataset");
  const Json sets{{"type", "object"},
                  {"propertyNames", {{"pattern", evaluator_name_pattern}}},
                  {"additionalProperties", set}};
  return {{"description", evaluators_doc}, {"anyOf", {sets, {{"enum", {nullptr, "none"}}}}}};
}

}  // namespace

Json recipe_schema(const Registry& known) {
  TrainerOptions options;
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "recipe of composer"}};
  schema.update(fields_schema(collect(options), "what is trained, on what, and how", ""));
  schema["type"] = "object";
  Json keys = Json::object(), definitions = Json::object();
#define X(key, kind, several, alters) \
  keys[#key] = choice_schema({#key, several, alters}, needed(ChoiceKey::key), known.kind);
  COMPOSER_CHOICES(X)
#undef X
  keys[evaluators_key] = evaluators_schema(known.datasets);
  keys.update(schema["properties"]);
  schema["properties"] = keys;
  for (const auto key : required_choices) schema["required"].push_back(name(key));
#define X(key, kind, several, alters)             \
  if (!definitions.contains(known.kind.plural())) \
    definitions[known.kind.plural()] = catalog_schema(known.kind, #key);
  COMPOSER_CHOICES(X)
#undef X
  schema["$defs"] = definitions;
  return schema;
}

}  // namespace composer
