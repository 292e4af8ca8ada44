// Tables that move bytes from and to the places of set bits.
#pragma once

#include <array>
#include <cstdint>

namespace composer {

/// For each byte of bits, as indices of a table look-up; 0x80 takes a 0.
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
