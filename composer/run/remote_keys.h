// A recipe's `remote` for the whole process.
#pragma once

#include "base/remote/remote_options.h"
#include "composer/recipe/options.h"

namespace composer {

/// Stores that are opened from now on are reached so.
inline void use_remote_keys(const RemoteKeys& keys) {
  constexpr double kGigabyte = 1e9;
  set_remote_options({keys.endpoint_url, keys.region, keys.cache_dir,
                      static_cast<uint64_t>(keys.cache_limit * kGigabyte)});
}

}  // namespace composer
