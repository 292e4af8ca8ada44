// Quantised DCT coefficients in a code that vectors read: no bit of it has to wait for those
// before. A row of blocks is, little-endian: for each block 64 bits, which of its AC coefficients
// are not 0, in natural order; then each block's DC coefficient, of 16 bits; then the AC
// coefficients, block after block. They have 8 bits each. Where a block has one that does not fit,
// its bit 0 is set, and the lower 8 bits of all of them come first, the upper 8 bits behind.
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
  /// Blocks first .. first + count - 1 of a row of `blocks`. Behind it kUnpackMargin bytes are
  /// read, whatever they are. False when the row is too short for what it says.
  bool (*unpack)(std::span<const uint8_t> row, size_t blocks, size_t first, size_t count,
                 int16_t* out) = nullptr;
  /// 64 bits that tell bytes from damaged ones; the same on every processor.
  uint64_t (*checksum)(std::span<const uint8_t> bytes) = nullptr;
};

const CoefficientKernels& coefficient_kernels();

inline constexpr size_t kUnpackMargin = 192;

constexpr size_t packed_room(size_t blocks) { return blocks * (8 + 2 + 2 * 63) + 16; }

/// Tables that move bytes from and to the positions of set bits: for each byte of bits the
/// indices of a table look-up; 0x80 takes a 0.
struct BitPlaces {
  using Places = std::array<std::array<uint8_t, 8>, 256>;
  Places spread{};   ///< [bit]: which of the bytes side by side comes to this bit
  Places collect{};  ///< the bits that are set, ascending

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
