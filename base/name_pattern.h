// Patterns that users write for names: load_ignore, freeze.
#pragma once

#include <fnmatch.h>

#include <algorithm>
#include <string>
#include <vector>

namespace composer {

/// Whether the whole `name` matches `pattern`: * matches any characters (dots too), ? matches one.
inline bool fits(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

inline bool fits_any(const std::string& name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const auto& pattern) { return fits(name, pattern); });
}

/// "; did you mean 'layer1.*'?" for a pattern that matches no name but with which some names begin,
/// such as a layer's name; else empty.
inline std::string layer_hint(const std::string& pattern, const std::vector<std::string>& names) {
  for (const auto& whole : {pattern + ".*", pattern + "*"})
    if (std::ranges::any_of(names, [&](const auto& name) { return fits(name, whole); }))
      return "; did you mean '" + whole + "'?";
  return "";
}

}  // namespace composer
