// How much memory was used for what, at a moment.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace composer {

enum class MemoryUse : size_t { weights, gradients, optimizer, activations, input };
/// Activations are all that is not one of the others: what the forward pass keeps, and what
/// operators need for themselves.
inline constexpr std::array<std::string_view, 5> memory_use_names{
    "weights", "gradients", "optimizer", "activations", "input"};

struct MemoryPoint {
  int64_t nanoseconds = 0;  ///< since 1970
  std::array<int64_t, memory_use_names.size()> bytes{};
};

}  // namespace composer
