// The user's cache folder.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace composer {

/// This program's folder in the user's cache; empty when the environment names no cache.
inline std::filesystem::path user_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::filesystem::path(cache) / "composer";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::filesystem::path(home) / ".cache/composer";
  return {};
}

}  // namespace composer
