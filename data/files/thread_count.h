// How many threads an option num_workers means.
#pragma once

#include "base/machine_limits.h"

namespace composer {

/// threads, or where that is 0 one for each processor that this process may use; at least 1.
inline int thread_count(int threads) {
  return threads > 0 ? threads : static_cast<int>(usable_processors(read_machine_limits()));
}

}  // namespace composer
