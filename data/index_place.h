// Where a set's crop indices are kept.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "composer/loader.h"
#include "data/index_store.h"

namespace composer {

/// Beside a .beton file F.beton.index, in a folder .composer-index.
std::filesystem::path index_file_of(const std::filesystem::path& source);

/// The stamp that a .beton file's or a folder's indices have as a whole; a folder has none.
FileStamp index_stamp_of(const std::filesystem::path& source);

/// For a .beton file or a folder of images. Null with crop_index: off. Throws UserError for a word
/// that crop_index does not have, and for an index_dir that would not be used.
std::unique_ptr<IndexStore> open_index_store(const std::filesystem::path& source,
                                             const LoaderOptions& options);

}  // namespace composer
