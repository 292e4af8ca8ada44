// Names of the files and folders that operating systems and storage boxes add to a user's folders.
#pragma once

#include <string_view>

namespace composer {

/// Whether the name is a system file's or folder's: "._*" (AppleDouble), "__MACOSX", "@eaDir",
/// "$RECYCLE.BIN", "lost+found", "Thumbs.db", ... Case does not count.
bool is_system_file(std::string_view name);

/// Whether any part of the path is a system file or folder. path: separated by '/'.
bool is_in_system_folder(std::string_view path);

}  // namespace composer
