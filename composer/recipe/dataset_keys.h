// Keys that mean the same wherever a set has them: is_train, shuffle and drop_last follow from what
// the set is for; datadir and ffcv_dir are folders of data, file, classes, images_dir and shards
// name what is below datadir or, without it, the working directory.
#pragma once

#include <filesystem>
#include <string>

#include "base/params/params.h"

namespace composer {

/// What a set under val_dataset starts from: no is_train, shuffle and drop_last.
void set_for_evaluation(const FieldSet& fields);

/// Adds to `problems` where the set under `key`, train_dataset or val_dataset, is told by is_train
/// to be the other. path: of the set; params: as written; fields: as read.
void check_use(const std::string& key, const std::string& path, const Value& params,
               const FieldSet& fields, Problems& problems);

/// A relative folder that a recipe file names and the working directory lacks becomes that beside
/// the file, where there is one; a line in the log says so. path: of the set.
void find_data_folders(Value& params, const std::string& path);

/// Relative paths of data become absolute: folders, files and shards that are there, and folders
/// that copies go to. What is below datadir stays as it is.
void make_data_paths_absolute(Value& params);

/// The absolute path, or the path itself where a folder above has a name that is not UTF-8, which a
/// recipe cannot hold.
std::string absolute_text(const std::filesystem::path& path);

}  // namespace composer
