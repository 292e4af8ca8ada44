// Where a user's programs keep what can be had again.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace composer {

/// This program's folder there; empty when the environment names none.
inline std::filesystem::path user_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::filesystem::path(cache) / "composer";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::filesystem::path(home) / ".cache/composer";
  return {};
}

}  // namespace composer
