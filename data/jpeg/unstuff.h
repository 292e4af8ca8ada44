// Entropy-coded JPEG bytes as a plain stream of bits: a 0 follows each 0xFF, to be left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace composer {

struct Unstuffed {
  size_t read = 0;     ///< input bytes used: up to a marker, or all
  size_t written = 0;  ///< bytes of `out`
};

/// out: room for in.size() + 32 bytes.
/// removed: if any, gets for each byte left out how many bytes of `out` lie before it.
Unstuffed unstuff(std::span<const uint8_t> in, uint8_t* out, std::vector<uint32_t>* removed);

}  // namespace composer
