// UTF-8: the text of recipes and the names of classes, which are written to JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

/// The offset of the first byte of `text` that is not UTF-8 (RFC 3629); npos without one.
size_t find_invalid_utf8(std::string_view text);

/// The text for a message, with '?' for each byte that is not UTF-8.
std::string shown_utf8(std::string text);

/// Groups of names, such as "Cat, cat", that differ only in case, in blanks around them or in their
/// Unicode form (NFC, as Linux and Windows write names; NFD, as macOS did).
std::vector<std::string> alike_names(const std::vector<std::string>& names);

}  // namespace composer
