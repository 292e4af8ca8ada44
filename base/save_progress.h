// The progress of this process's saves.
#pragma once

#include <atomic>
#include <cstdint>

namespace composer {

/// Bytes of checkpoints that any thread has written, plus bytes sent to stores. It grows while a
/// save advances.
inline std::atomic<int64_t> saved_bytes = 0;

}  // namespace composer
