// Files and folders that operating systems and storage boxes leave beside a user's own, by their
// names.
#pragma once

#include <string_view>

namespace composer {

/// Whether a file or folder of this name is one of those: "._*" (AppleDouble), "__MACOSX",
/// "@eaDir", "$RECYCLE.BIN", "lost+found", "Thumbs.db", ... Case does not count.
bool is_system_file(std::string_view name);

/// Whether a file or a folder of the path is. path: with '/'.
bool is_in_system_folder(std::string_view path);

}  // namespace composer
