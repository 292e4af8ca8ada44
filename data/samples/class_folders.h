// The image files of class folders, listed by several threads.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/samples/sample_table.h"

namespace composer {

/// The kind of a file by the ending of its name; `other` for a system's file (system_files.h).
enum class FileKind { image, unreadable_image, other };
/// name: may be a path.
FileKind file_kind_of(std::string_view name);

/// The folder's path with a '/' at the end.
std::string with_slash(const std::filesystem::path& folder);

struct ClassListing {
  std::vector<std::string> images;  ///< sorted paths below the folder of the classes
  /// Number of files that are not meant as images, without hidden files and systems' files.
  int64_t others = 0;
  std::string an_other{};  ///< path of one such file
  /// The folders, and links that lead neither to folders nor to images, in no order.
  std::vector<std::pair<std::string, PathStamp>> watched;
  std::exception_ptr error;  ///< the UserError of a class that cannot be listed
};

/// The files of each class that are meant as images, also in deeper folders and behind links to
/// folders. Links that lead back to a parent folder and systems' folders are skipped.
std::vector<ClassListing> list_class_folders(const std::filesystem::path& folder,
                                             const std::vector<std::string>& classes);

/// The images of one folder, in no order. Throws UserError if the folder cannot be read.
std::vector<std::string> images_below(const std::filesystem::path& folder);

/// The table of the listings, for kept_table(); nullopt where a class could not be listed.
std::optional<std::vector<uint8_t>> class_table(const std::vector<std::string>& classes,
                                                const std::vector<ClassListing>& listings);

/// The index of each class among `names`; -1: not among them.
std::vector<int32_t> indices_of(const std::vector<std::string>& classes,
                                const std::vector<std::string>& names);

}  // namespace composer
