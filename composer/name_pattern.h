// Patterns of names, as users write them: load_ignore, freeze.
#pragma once

#include <fnmatch.h>

#include <algorithm>
#include <string>
#include <vector>

namespace composer {

/// Whether `name` as a whole fits `pattern`, in which * stands for any characters (dots too) and ?
/// for one.
inline bool fits(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

inline bool fits_any(const std::string& name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const auto& pattern) { return fits(name, pattern); });
}

}  // namespace composer
