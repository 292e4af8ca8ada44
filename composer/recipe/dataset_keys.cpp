#include "composer/recipe/dataset_keys.h"

#include <algorithm>

namespace composer {
namespace {

/// The field of a bool of this name, or null.
const Field* find_flag(const FieldSet& fields, const std::string& name) {
  const auto found = std::ranges::find(fields.fields, name, &Field::name);
  return found != fields.fields.end() && found->flag ? &*found : nullptr;
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
  const bool training = key == "train_dataset";
  const std::string right = training ? "true" : "false";
  if (field->write().text == right) return;
  problems.push_back({written->origin, join_path(path, "is_train"),
                      "must be " + right + ": what stands under " + key + " is " +
                          (training ? "trained" : "evaluated") + " on; leave the key out"});
}

}  // namespace composer
