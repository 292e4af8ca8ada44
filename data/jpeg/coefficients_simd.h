// A code for quantised DCT coefficients that vector instructions read: decoding a bit never waits
// for earlier bits. A row of blocks is little-endian: a mask of 64 bits for each block, whose set
// bits are its nonzero AC coefficients in natural order; the DC coefficient of each block, 16 bits;
// the nonzero AC coefficients, block after block, 8 bits each. When a coefficient of a block does
// not fit, bit 0 of the mask is set, and the lower 8 bits of all the block's coefficients precede
// the upper 8 bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace composer {

struct CoefficientKernels {
  /// blocks: 64 coefficients each, in natural order. out: room for packed_room(count). Returns the
  /// bytes of the row.
  size_t (*pack)(const int16_t* blocks, size_t count, uint8_t* out) = nullptr;
  /// Unpacks blocks first .. first + count - 1 of a row of `blocks` blocks. May read kUnpackMargin
  /// bytes behind the row. False when the row is shorter than its masks demand.
  bool (*unpack)(std::span<const uint8_t> row, size_t blocks, size_t first, size_t count,
                 int16_t* out) = nullptr;
  /// A checksum of 64 bits, equal on every processor.
  uint64_t (*checksum)(std::span<const uint8_t> bytes) = nullptr;
};

const CoefficientKernels& coefficient_kernels();

inline constexpr size_t kUnpackMargin = 192;

constexpr size_t packed_room(size_t blocks) { return blocks * (8 + 2 + 2 * 63) + 16; }

/// Indices of a table look-up, for each byte of bits, that move bytes from and to the positions of
/// its set bits. Index 0x80 gives a 0.
struct BitPlaces {
  using Places = std::array<std::array<uint8_t, 8>, 256>;
  Places spread{};   ///< [bit]: index of the packed byte that moves to this bit
  Places collect{};  ///< the set bits, ascending

  constexpr BitPlaces() {
    for (size_t bits = 0; bits < 256; ++bits) {
      spread[bits].fill(0x80), collect[bits].fill(0x80);
      uint8_t next = 0;
      for (uint8_t bit = 0; bit < 8; ++bit) {
        if ((bits >> bit & 1) == 0) continue;
        spread[bits][bit] = next;
        collect[bits][next++] = bit;
      }
    }
  }
};
inline constexpr BitPlaces kBitPlaces;

}  // namespace composer
