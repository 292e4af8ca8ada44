// Paths that users give to commands -> the samples there.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/source.h"

namespace composer {

/// A .beton file, class folders (in train/ or val/ where there is one), any folder of images, or a
/// folder with CIFAR-10's binary files. Throws UserError.
std::shared_ptr<Source> open_source(const std::string& path, bool is_train);

/// All files below the folder in the order of their paths; links to folders are followed. Hidden
/// ones (such as an index of ours) are left out, and what is no file (a pipe). Throws UserError
/// when there are none.
std::vector<std::string> files_below(const std::filesystem::path& folder);

/// All image files below a folder, in sorted order, with class 0. Throws UserError when there are
/// none.
std::shared_ptr<FileSource> open_folder_files(const std::string& folder);

}  // namespace composer
