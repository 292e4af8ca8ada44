// How stores are reached: a recipe's `remote`, handed to what opens them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace composer {

struct RemoteOptions {
  std::string endpoint_url = {};  ///< of s3://; empty: the environment's, ~/.aws's, Amazon's
  std::string region = {};        ///< likewise
  std::filesystem::path cache_dir =
      {};                    ///< for copies of what is read; empty: the user's cache folder
  uint64_t cache_limit = 0;  ///< bytes that they may take; 0: no limit but the disk's
};

/// Of an environment variable; empty where it is not set.
inline std::string environment_value(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace composer
