// Names of classes that are meant to be the same, perhaps.
#pragma once

#include <string>
#include <vector>

namespace composer {

/// Those that differ in case, in blanks around them or in their Unicode form (NFC, as Linux and
/// Windows write names, and NFD, as macOS did) alone, each such group as "Cat, cat".
std::vector<std::string> alike_names(const std::vector<std::string>& names);

}  // namespace composer
