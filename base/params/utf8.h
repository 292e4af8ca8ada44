// What can be text in a recipe, or a class's name: UTF-8, as it ends up in JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

/// Where `text` first is not UTF-8 (RFC 3629); npos if nowhere.
size_t find_invalid_utf8(std::string_view text);

/// For a message: with '?' in the place of each byte that is not UTF-8.
std::string shown_utf8(std::string text);

/// Those that differ in case, in blanks around them or in their Unicode form (NFC, as Linux and
/// Windows write names, and NFD, as macOS did) alone, each such group as "Cat, cat".
std::vector<std::string> alike_names(const std::vector<std::string>& names);

}  // namespace composer
