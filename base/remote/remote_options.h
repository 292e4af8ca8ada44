// How stores are reached, for the whole process: a recipe's `remote`.
#pragma once

#include <cstdint>
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

/// Those of stores that are opened from now on.
void set_remote_options(RemoteOptions options);
RemoteOptions remote_options();

/// Of an environment variable; empty where it is not set.
std::string environment_value(const char* name);

}  // namespace composer
