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

/// What a file is, by the ending of its name; other where it is a system's (system_files.h).
enum class FileKind { image, unreadable_image, other };
/// name: may be a path.
FileKind file_kind_of(std::string_view name);

/// The folder's path with a '/' behind it.
std::string with_slash(const std::filesystem::path& folder);

struct ClassListing {
  std::vector<std::string> images;  ///< paths below the folder of the classes, sorted
  /// Files that are not meant as images, but for hidden ones and those of systems.
  int64_t others = 0;
  std::string an_other{};  ///< the path of one of them
  /// The folders, and links that lead neither to folders nor to images, in no order.
  std::vector<std::pair<std::string, PathStamp>> watched;
  std::exception_ptr error;  ///< what kept it from being listed: UserError
};

/// The files of each class, those in deeper folders and behind links to folders included, that are
/// meant as images. Links that lead back to a folder above are passed over, and folders of systems.
std::vector<ClassListing> list_class_folders(const std::filesystem::path& folder,
                                             const std::vector<std::string>& classes);

/// The images of one folder, in no order. Throws UserError where it cannot be read.
std::vector<std::string> images_below(const std::filesystem::path& folder);

/// The table of such listings, to be kept; nothing where a class could not be listed.
std::optional<std::vector<uint8_t>> class_table(const std::vector<std::string>& classes,
                                                const std::vector<ClassListing>& listings);

}  // namespace composer
