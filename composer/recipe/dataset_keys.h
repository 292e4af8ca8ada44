// Keys that mean the same wherever a set has them: is_train, shuffle and drop_last follow from what
// the set is for.
#pragma once

#include <string>

#include "composer/recipe/params.h"

namespace composer {

/// What a set under val_dataset starts from: no is_train, shuffle and drop_last.
void set_for_evaluation(const FieldSet& fields);

/// Adds to `problems` where the set under `key`, train_dataset or val_dataset, is told by is_train
/// to be the other. path: of the set; params: as written; fields: as read.
void check_use(const std::string& key, const std::string& path, const Value& params,
               const FieldSet& fields, Problems& problems);

}  // namespace composer
