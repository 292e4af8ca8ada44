// The trace file: compressed, with memory use added.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace composer {

enum class MemoryUse : size_t { weights, gradients, optimizer, activations, input };
/// Activations are all memory that has no other use: what the forward pass saves, and temporaries
/// of operators.
inline constexpr std::array<std::string_view, 5> memory_use_names{
    "weights", "gradients", "optimizer", "activations", "input"};

struct MemoryPoint {
  int64_t nanoseconds = 0;  ///< since 1970
  std::array<int64_t, memory_use_names.size()> bytes{};
};

/// Compresses a trace that Kineto wrote (Chrome's JSON format). Ranges of a thread that overlap
/// without nesting, which viewers cannot show in one row, move to rows of their own, one kind of
/// rows for communication and one for everything else; flow events that are bound to them move too.
/// A thread without a name is named after its first range. memory: becomes the counter "memory".
/// The file is written atomically. RunError when `json` is no such trace or `compressed` cannot be
/// written.
void compress_trace(const std::filesystem::path& json, const std::filesystem::path& compressed,
                    const std::vector<MemoryPoint>& memory);

}  // namespace composer
