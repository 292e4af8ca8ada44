// The stream of bits of a JPEG scan, and whether the processor can walk along it with BMI2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace composer {

/// Entropy-coded bytes hold a 0 behind each 0xFF, which is no part of the stream of bits.
struct Unstuffed {
  size_t read = 0;     ///< input bytes used: up to a marker, or all
  size_t written = 0;  ///< bytes of `out`
};

/// out: room for in.size() + 32 bytes.
/// removed: if not null, gets for each skipped byte the number of bytes of `out` before it.
Unstuffed unstuff(std::span<const uint8_t> in, uint8_t* out, std::vector<uint32_t>* removed);

/// Whether the processor has BMI2, whose shifts take their width from any register: all processors
/// with AVX2 have it, and limits on vector instructions hold for both.
bool has_bmi2();

}  // namespace composer
