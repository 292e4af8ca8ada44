#include "composer/recipe/dataset_keys.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/params/kinds.h"
#include "base/params/utf8.h"
#include "base/remote/remote_path.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr std::array folder_keys{"datadir", "ffcv_dir"};
/// Folders for copies of data, created if they do not exist.
constexpr std::array copy_keys{"ffcv_local_dir", "local_dir"};
/// Files, and a folder of files, below datadir if that is given.
constexpr std::array file_keys{"file", "classes", "images_dir"};
constexpr const char* shards_key = "shards";

/// The boolean field of this name, or null.
const Field* find_flag(const FieldSet& fields, const std::string& name) {
  const auto found = std::ranges::find(fields.fields, name, &Field::name);
  return found != fields.fields.end() && found->flag ? &*found : nullptr;
}

/// The relative path in `params` under `key`; empty if there is none.
fs::path relative_path(const Value& params, const char* key) {
  const Value* value = params.find(key);
  if (value == nullptr || value->kind != Value::Kind::scalar || value->none()) return {};
  if (is_remote(value->text)) return {};
  const fs::path path = value->text;
  return path.is_relative() ? path : fs::path();
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_text(const fs::path& path) { return find_invalid_utf8(path.string()) == std::string::npos; }

/// Makes existing relative names in `shards` absolute. shards: "a-{000..146}.tar", with "::"
/// between several. A name with braces counts as existing if its folder exists.
std::string with_absolute_names(const std::string& shards) {
  const fs::path here = fs::current_path();
  const bool is_pattern =
      here.string().find('{') != std::string::npos || here.string().find("::") != std::string::npos;
  if (is_pattern || !is_text(here) || is_remote(shards)) return shards;
  std::string all;
  for (size_t begin = 0; begin <= shards.size();) {
    const size_t end = std::min(shards.find("::", begin), shards.size());
    const fs::path name = shards.substr(begin, end - begin);
    const size_t brace = name.string().find('{');
    const fs::path known =
        brace == std::string::npos
            ? name
            : fs::path(".") / fs::path(name.string().substr(0, brace)).parent_path();
    const bool moves = !name.empty() && name.is_relative() && is_there(known);
    all += (begin == 0 ? "" : "::") + (moves ? here / name : name).string();
    begin = end + 2;
  }
  return all;
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
    if (!is_there(beside) || !is_text(beside)) continue;
    log::info(Problem{value->origin, join_path(path, key),
                      "'" + value->text + "' is not in the working directory; taking '" +
                          beside.string() + "', beside the recipe"}
                  .line());
    value->text = beside.string();
    value->quoted = true;
  }
}

void make_data_paths_absolute(Value& params) {
  const auto make_absolute = [&](const char* key, bool there) {
    if (const fs::path path = relative_path(params, key);
        !path.empty() && (!there || is_there(path)))
      *params.find(key) = Value::string(absolute_text(path));
  };
  for (const char* key : folder_keys) make_absolute(key, /*there=*/true);
  for (const char* key : copy_keys) make_absolute(key, /*there=*/false);
  if (const Value* datadir = params.find("datadir");
      datadir != nullptr && !datadir->none() && !datadir->text.empty())
    return;
  for (const char* key : file_keys) make_absolute(key, /*there=*/true);
  if (Value* shards = params.find(shards_key);
      shards != nullptr && shards->kind == Value::Kind::scalar && !shards->none())
    *shards = Value::string(with_absolute_names(shards->text));
}

std::string absolute_text(const fs::path& path) {
  const auto whole = fs::absolute(path);
  return (is_text(whole) ? whole : path).string();
}

}  // namespace composer
