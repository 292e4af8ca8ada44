// Where a set's crop indices, and coefficients, are kept.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/loading/loader_options.h"
#include "data/index/index_store.h"

namespace composer {

class CoefficientStore;

/// A file about the data at `source` in the user's cache, or in the folder index_dir where one is
/// named: the same for every way to name the same data. Empty where the environment names no cache.
std::filesystem::path cache_file_of(const std::filesystem::path& source,
                                    const std::string& index_dir, const std::string& ending);

/// Beside a .beton file F.beton.index, in a folder .composer-index.
std::filesystem::path index_file_of(const std::filesystem::path& source);

/// The stamp that a .beton file's or a folder's indices have as a whole; a folder has none.
FileStamp index_stamp_of(const std::filesystem::path& source);

/// For a .beton file or a folder of images. remote: the stamp of one that is remote. Null with
/// crop_index: off. Throws UserError for a word that crop_index does not have, for an index_dir
/// that would not be used, and for an index beside what is remote.
std::unique_ptr<IndexStore> open_index_store(const std::filesystem::path& source,
                                             const LoaderOptions& options,
                                             const std::optional<FileStamp>& remote = {});

/// The same for the coefficients of the images, which lie where the crop index is written; null
/// with coefficient_cache: 0. Throws UserError where there would be no crop index.
std::unique_ptr<CoefficientStore> open_coefficient_store(
    const std::filesystem::path& source, const LoaderOptions& options,
    const std::optional<FileStamp>& remote = {});

}  // namespace composer
