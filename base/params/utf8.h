// What can be text in a recipe, or a class's name: UTF-8, as it ends up in JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace composer {

/// Where `text` first is not UTF-8 (RFC 3629); npos if nowhere.
size_t find_invalid_utf8(std::string_view text);

/// For a message: with '?' in the place of each byte that is not UTF-8.
std::string shown_utf8(std::string text);

}  // namespace composer
