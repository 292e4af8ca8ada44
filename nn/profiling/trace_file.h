// The files that traces are kept in.
#pragma once

#include <filesystem>
#include <vector>

#include "nn/profiling/memory_point.h"

namespace composer {

/// Compresses a trace that Kineto wrote (Chrome's JSON). Ranges of a thread that overlap without
/// one being in the other, which viewers cannot show in a row, get rows of their own, and with them
/// the ends of flows that begin there: those of communication that goes on while the thread does
/// something else, and apart from them all others. A thread without a name has that of its first
/// range. memory: becomes the counter "memory". The file is whole or not there. RunError when
/// `json` is no such trace or `compressed` cannot be written.
void compress_trace(const std::filesystem::path& json, const std::filesystem::path& compressed,
                    const std::vector<MemoryPoint>& memory);

}  // namespace composer
