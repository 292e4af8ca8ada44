// The files that hold a set's crop index and its cached coefficients.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/loading/loader_options.h"
#include "data/index/index_store.h"

namespace composer {

class CoefficientStore;

/// A file for the data at `source` in the folder index_dir, or in the user's cache if index_dir is
/// empty. All names of the same data give the same file. Empty when the environment names no cache.
std::filesystem::path cache_file_of(const std::filesystem::path& source,
                                    const std::string& index_dir, const std::string& ending);

/// The index beside the data: F.beton.index for a file F.beton, .composer-index in a folder.
std::filesystem::path index_file_of(const std::filesystem::path& source);

/// The stamp of a .beton file's indices; empty for a folder.
FileStamp index_stamp_of(const std::filesystem::path& source);

/// The index of a .beton file or of a folder of images. remote: the stamp of remote data. Null with
/// crop_index: off. Throws UserError for an unknown value of crop_index, for an index_dir without
/// effect, and for crop_index: beside with remote data.
std::unique_ptr<IndexStore> open_index_store(const std::filesystem::path& source,
                                             const LoaderOptions& options,
                                             const std::optional<FileStamp>& remote = {});

/// The coefficients of the images, in the same folder as the crop index. Null with
/// coefficient_cache: 0. Throws UserError with crop_index: off.
std::unique_ptr<CoefficientStore> open_coefficient_store(
    const std::filesystem::path& source, const LoaderOptions& options,
    const std::optional<FileStamp>& remote = {});

}  // namespace composer
