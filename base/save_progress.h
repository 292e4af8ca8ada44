// How far this process has got with what it saves.
#pragma once

#include <atomic>
#include <cstdint>

namespace composer {

/// Bytes of checkpoints that any thread has written, and bytes that were sent to stores: it grows
/// while a save advances.
inline std::atomic<int64_t> saved_bytes = 0;

}  // namespace composer
