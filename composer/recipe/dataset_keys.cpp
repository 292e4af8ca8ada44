#include "composer/recipe/dataset_keys.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "composer/logging/log.h"
#include "composer/recipe/kinds.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr std::array folder_keys{"datadir", "ffcv_dir"};

/// The field of a bool of this name, or null.
const Field* find_flag(const FieldSet& fields, const std::string& name) {
  const auto found = std::ranges::find(fields.fields, name, &Field::name);
  return found != fields.fields.end() && found->flag ? &*found : nullptr;
}

/// The relative path that `params` has under `key`; empty for none.
fs::path relative_path(const Value& params, const char* key) {
  const Value* value = params.find(key);
  if (value == nullptr || value->kind != Value::Kind::scalar || value->none()) return {};
  const fs::path path = value->text;
  return path.is_relative() ? path : fs::path();
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

void set_for_evaluation(const FieldSet& fields) {
  Problems none;
  for (const char* name : {"is_train", "shuffle", "drop_last"})
    if (const Field* field = find_flag(fields, name))
      field->read(Value::scalar("false"), name, none);
}

void check_use(const std::string& key, const std::string& path, const Value& params,
               const FieldSet& fields, Problems& problems) {
  const Value* written = params.find("is_train");
  const Field* field = find_flag(fields, "is_train");
  if (written == nullptr || field == nullptr) return;
  const bool training = key == name(ChoiceKey::train_dataset);
  const std::string right = training ? "true" : "false";
  if (field->write().text == right) return;
  problems.push_back({written->origin, join_path(path, "is_train"),
                      "must be " + right + ": what stands under " + key + " is " +
                          (training ? "trained" : "evaluated") + " on; leave the key out"});
}

void find_data_folders(Value& params, const std::string& path) {
  for (const char* key : folder_keys) {
    const fs::path folder = relative_path(params, key);
    Value* value = params.find(key);
    if (folder.empty() || value->origin.file.empty() || is_there(folder)) continue;
    const fs::path beside = fs::path(value->origin.file).parent_path() / folder;
    if (!is_there(beside)) continue;
    log::info(Problem{value->origin, join_path(path, key),
                      "'" + value->text + "' is not in the working directory; taking '" +
                          beside.string() + "', beside the recipe"}
                  .line());
    value->text = beside.string();
    value->quoted = true;
  }
}

void make_data_folders_absolute(Value& params) {
  for (const char* key : folder_keys)
    if (const fs::path folder = relative_path(params, key); !folder.empty() && is_there(folder))
      *params.find(key) = Value::string(fs::absolute(folder).string());
}

}  // namespace composer
