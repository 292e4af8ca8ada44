// The descriptors of a .beton file's fields, and where each field lies in a row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/beton/beton.h"

namespace composer {

inline constexpr uint64_t kBetonHeaderBytes = 24;
inline constexpr uint64_t kBetonDescriptorBytes = 1041;
inline constexpr uint64_t kBetonNameBytes = 16;
inline constexpr uint64_t kBetonEntryBytes = 24;  ///< an entry of the allocation table

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Whether a name has only printable ASCII characters.
inline bool is_readable(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
}

struct BetonLayout {
  std::vector<BetonField> fields;
  std::vector<uint64_t> array_bytes;  ///< bytes of an array or tensor; 0 for other fields
  uint64_t row_bytes = 0;
  uint64_t regions = 0;  ///< regions that FFCV allocates for each row
};

/// descriptors: kBetonDescriptorBytes for each field. Throws RunError with the reason.
BetonLayout read_beton_fields(std::span<const uint8_t> descriptors);

}  // namespace composer
