// Replaces bytes by a table.
#pragma once

#include <array>
#include <cstdint>

namespace composer {

/// values[i] = table[values[i]]
void map_bytes(const std::array<uint8_t, 256>& table, uint8_t* values, int64_t n);

}  // namespace composer
