// What can be text in a recipe: UTF-8, as its values end up in JSON.
#pragma once

#include <cstddef>
#include <string_view>

namespace composer {

/// Where `text` first is not UTF-8 (RFC 3629); npos if nowhere.
size_t find_invalid_utf8(std::string_view text);

}  // namespace composer
