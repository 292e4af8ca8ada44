// Ranks in the threads of one process, to see what they can do.
#pragma once

#include <cstdint>

namespace composer {

/// Seconds that two ranks of this machine take to add up so many bytes of float32 numbers by Gloo,
/// once they know each other. RunError when they cannot meet, or the sum is wrong.
double time_local_sum(int64_t bytes);

}  // namespace composer
