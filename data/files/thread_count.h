// The number of threads for an option num_workers.
#pragma once

#include "base/machine_limits.h"

namespace composer {

/// `threads`, or for 0 one for each processor that this process may use; at least 1.
inline int thread_count(int threads) {
  return threads > 0 ? threads : static_cast<int>(usable_processors(read_machine_limits()));
}

}  // namespace composer
