// How many threads an option num_workers means.
#pragma once

#include <algorithm>
#include <thread>

namespace composer {

/// threads, or where that is 0 the number of processors; at least 1.
inline int thread_count(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace composer
