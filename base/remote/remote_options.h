// Options of stores: a recipe's `remote`.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace composer {

struct RemoteOptions {
  /// The store of s3:// paths; empty: that of the environment, else of ~/.aws, else Amazon's.
  std::string endpoint_url = {};
  std::string region = {};  ///< the store's region; empty: found in the same places
  /// The folder for copies of remote data; empty: the user's cache folder.
  std::filesystem::path cache_dir = {};
  uint64_t cache_limit = 0;  ///< bytes that the copies may take; 0: no limit but the disk's
};

/// The value of an environment variable; empty when it is not set.
inline std::string environment_value(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace composer
