// Keys with one meaning in all data sets: is_train, shuffle and drop_last follow from the use of
// the set; datadir and ffcv_dir are folders of data; file, classes, images_dir and shards are paths
// below datadir or, without it, the working directory.
#pragma once

#include <filesystem>
#include <string>

#include "base/params/params.h"

namespace composer {

/// Sets the defaults of a set for evaluation: is_train, shuffle and drop_last are false.
void set_for_evaluation(const FieldSet& fields);

/// Adds a problem if is_train contradicts `key`, which is train_dataset or val_dataset. path: the
/// set's path in the recipe; params: its values as written; fields: as read.
void check_use(const std::string& key, const std::string& path, const Value& params,
               const FieldSet& fields, Problems& problems);

/// Resolves a relative folder that does not exist in the working directory against the recipe
/// file's folder, if it exists there, and logs that. path: the set's path in the recipe.
void find_data_folders(Value& params, const std::string& path);

/// Makes relative paths of data absolute: existing folders, files and shards, and folders for
/// copies. Paths below datadir stay relative.
void make_data_paths_absolute(Value& params);

/// The absolute path; the path itself if the absolute one is not UTF-8, which a recipe cannot hold.
std::string absolute_text(const std::filesystem::path& path);

}  // namespace composer
