// The JSON Schema of recipes: by a checker for the keywords that it uses.
#include "composer/recipe/schema.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/params/json.h"
#include "base/params/params.h"
#include "cli/main.h"
#include "composer/recipe/recipe.h"
#include "program.h"
#include "tests/temporary_folder.h"

namespace composer::schema_test {

namespace {

using Json = nlohmann::ordered_json;

/// Checks values as draft 2020-12 says; std::logic_error for a keyword it does not know.
class Checker {
 public:
  explicit Checker(Json root) : root_(std::move(root)) {}

  const Json& root() const { return root_; }
  bool accepts(const Json& value) const { return accepts(value, root_); }

  bool accepts(const Json& value, const Json& schema) const {
    return std::ranges::all_of(schema.items(), [&](const auto& keyword) {
      return holds(keyword.key(), keyword.value(), value, schema);
    });
  }

 private:
  bool holds(const std::string& keyword, const Json& given, const Json& value,
             const Json& schema) const {
    const auto size = static_cast<int64_t>(value.size());
    if (is_remark(keyword)) return true;
    if (keyword == "$ref")
      return accepts(value, root_.at(Json::json_pointer(given.get<std::string>().substr(1))));
    if (keyword == "anyOf")
      return std::ranges::any_of(given, [&](const Json& one) { return accepts(value, one); });
    if (keyword == "enum") return std::ranges::find(given, value) != given.end();
    if (keyword == "type")
      return given.is_string()
                 ? is(value, given)
                 : std::ranges::any_of(given, [&](const Json& one) { return is(value, one); });
    if (keyword == "minimum") return !value.is_number() || value >= given;
    if (keyword == "maximum") return !value.is_number() || value <= given;
    if (keyword == "exclusiveMinimum") return !value.is_number() || value > given;
    if (keyword == "pattern")
      return !value.is_string() ||
             std::regex_search(value.get<std::string>(), std::regex(given.get<std::string>()));
    if (keyword == "minProperties") return !value.is_object() || size >= given;
    if (keyword == "maxProperties") return !value.is_object() || size <= given;
    if (keyword == "maxItems") return !value.is_array() || size <= given;
    if (keyword == "items")
      return !value.is_array() ||
             std::ranges::all_of(value, [&](const Json& one) { return accepts(one, given); });
    if (keyword == "required")
      return !value.is_object() || std::ranges::all_of(given, [&](const Json& key) {
        return value.contains(key.get<std::string>());
      });
    if (keyword == "properties")
      return !value.is_object() || std::ranges::all_of(given.items(), [&](const auto& key) {
        return !value.contains(key.key()) || accepts(value.at(key.key()), key.value());
      });
    if (keyword == "additionalProperties" && given == false)
      return !value.is_object() || std::ranges::all_of(value.items(), [&](const auto& key) {
        return schema.at("properties").contains(key.key());
      });
    throw std::logic_error("unknown keyword " + keyword);
  }

  static bool is_remark(const std::string& keyword) {
    static const std::vector<std::string> remarks{"$schema", "$defs", "title", "description",
                                                  "default"};
    return std::ranges::find(remarks, keyword) != remarks.end();
  }

  static bool is(const Json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    throw std::logic_error("unknown type " + type);
  }

  Json root_;
};

const Checker& checker() {
  add_builtin_components();
  static const Checker all(recipe_schema());
  return all;
}

const std::string good = R"(model: {resnet_cifar: {model_name: resnet_20}}
train_dataset: {shapes: {samples: 64}}
optimizer: {decoupled_sgdw: {lr: 0.1, momentum: 0.9}}
algorithms: [channels_last]
train_batch_size: 16
max_duration: 1ep
)";

bool resolves(const std::string& recipe) {
  add_builtin_components();
  try {
    resolve({"recipe", recipe});
    return true;
  } catch (const UserError&) {
    return false;
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// Every `default` that is not accepted where it stands, by its path.
void collect_bad_defaults(const Json& schema, const std::string& path,
                          std::vector<std::string>& bad) {
  if (!schema.is_structured()) return;
  if (schema.is_object() && schema.contains("default") && schema.contains("description") &&
      !checker().accepts(schema.at("default"), schema))
    bad.push_back(path + ": " + schema.at("default").dump());
  for (const auto& [key, value] : schema.items())
    collect_bad_defaults(value, path + "/" + key, bad);
}

}  // namespace

TEST_CASE("rules have a text", "[cli][schema]") {
  CHECK(rules_text({in(0, 1)}) == "in [0, 1]");
  CHECK(rules_text({in(-0.5, 4294967295.0)}) == "in [-0.5, 4294967295]");
  CHECK(rules_text({at_least(1).or_exactly(-1)}) == "at least 1, or -1");
  CHECK(rules_text({above(1e-8)}) == "above 1.0e-08");
  CHECK(rules_text({above(0), at_least(2), in(1, 3)}) == "above 0, at least 2, in [1, 3]");
  CHECK(rules_text({one_of("resize", "crop")}) == "resize or crop");
  CHECK(rules_text({required, one_of("auto", "true", "false")}) == "auto, true or false");
  CHECK(rules_text({one_of("metrics/eval/Accuracy")}) == "metrics/eval/Accuracy");
  CHECK(rules_text({required}).empty());
  CHECK(rules_text({}).empty());
}

TEST_CASE("the schema accepts every recipe and what it resolves to", "[cli][schema]") {
  for (const auto& doc : list_recipes()) {
    INFO(doc.name);
    const auto recipe = find_recipe(doc.name);
    CHECK(checker().accepts(recipe_json(recipe.text)));
    checker();
    CHECK(checker().accepts(recipe_json(dump(resolve(recipe)))));
  }
}

TEST_CASE("the schema accepts every default", "[cli][schema]") {
  std::vector<std::string> bad;
  collect_bad_defaults(checker().root(), "", bad);
  CHECK(bad == std::vector<std::string>{});
}

TEST_CASE("what the schema refuses in a recipe is refused by the program", "[cli][schema]") {
  REQUIRE(checker().accepts(recipe_json(good)));
  REQUIRE(resolves(good));
  const std::vector<std::pair<std::string, std::string>> changes{
      {"max_duration", "max_durration"},
      {"momentum", "momentun"},
      {"model_name", "modelname"},
      {"channels_last", "channels_first"},
      {"[channels_last]", "{label_smoothing: {smothing: 0.1}}"},
      {"[channels_last]", "{label_smoothing: {smoothing: 1.5}}"},
      {"[channels_last]", "[label_smoothing: 3]"},
      {"[channels_last]", "[{label_smoothing: , blurpool: }]"},
      {"train_batch_size: 16", "train_batch_size: 0"},
      {"train_batch_size: 16", "train_batch_size: many"},
      {"train_batch_size: 16\n", ""},
      {"lr: 0.1, ", ""},
      {"lr: 0.1", "lr: -1"},
      {"1ep", "1 epoch"},
      {"algorithms", "precision: half\nalgorithms"},
      {"algorithms", "progress_bar: 3\nalgorithms"},
      {"algorithms", "grad_clip_norm: -2\nalgorithms"},
      {"algorithms", "dataloader: {workers: 3}\nalgorithms"},
      {"algorithms", "load_ignore: {a: b}\nalgorithms"},
      {"{shapes: {samples: 64}}", "{shapes: {samples: 64}, synthetic: }"},
  };
  for (const auto& [from, to] : changes) {
    const auto recipe = replaced(good, from, to);
    INFO(recipe);
    CHECK_FALSE(checker().accepts(recipe_json(recipe)));
    CHECK_FALSE(resolves(recipe));
  }
}

TEST_CASE("the schema accepts every way to write a recipe", "[cli][schema]") {
  const std::vector<std::pair<std::string, std::string>> changes{
      {"[channels_last]", "{channels_last: , label_smoothing: {smoothing: 0.2}}"},
      {"[channels_last]", "[channels_last, {label_smoothing: {smoothing: 0.2}}]"},
      {"[channels_last]", "label_smoothing"},
      {"[channels_last]", "none"},
      {"[channels_last]", "[]"},
      {"1ep", "1"},
      {"1ep", "1e3sp"},
      {"algorithms", "grad_clip_norm: -1\nalgorithms"},
      {"algorithms", "cuda_graph: true\nalgorithms"},
      {"algorithms", "cuda_graph: auto\nalgorithms"},
      {"algorithms", "load_ignore:\nalgorithms"},
      {"algorithms", "freeze: layer1.*\nalgorithms"},
      {"algorithms", "eval_batch_size: none\nalgorithms"},
      {"algorithms", "dataloader:\nalgorithms"},
      {"algorithms", "run_name: 7\nalgorithms"},
      {"algorithms", "val_dataset: none\nalgorithms"},
  };
  for (const auto& [from, to] : changes) {
    const auto recipe = replaced(good, from, to);
    INFO(recipe);
    CHECK(resolves(recipe));
    CHECK(checker().accepts(recipe_json(recipe)));
  }
}

TEST_CASE("composer schema prints it", "[cli][schema]") {
  const TemporaryFolder folder;
  const auto printed = run(folder.path(), {"schema"});
  REQUIRE(printed.status == 0);
  const Checker printed_schema(Json::parse(printed.output));
  CHECK(printed_schema.accepts(recipe_json(good)));
  CHECK_FALSE(printed_schema.accepts(recipe_json(replaced(good, "momentum", "momentun"))));
}

}  // namespace composer::schema_test
