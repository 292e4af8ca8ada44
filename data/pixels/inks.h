// Pixels of four inks to RGB.
#pragma once

#include <algorithm>
#include <cstdint>

namespace composer {

/// Cyan, magenta, yellow and black (0 = no ink) of each pixel to RGB, as Pillow has it: without
/// colour management.
inline void inks_to_rgb(const uint8_t* inks, int64_t pixels, uint8_t* rgb) {
  for (int64_t i = 0; i < pixels; ++i, inks += 4, rgb += 3) {
    const int white = 255 - inks[3];
    for (int c = 0; c < 3; ++c) {
      const int product = inks[c] * white + 128;
      rgb[c] = static_cast<uint8_t>(std::max(white - ((product + (product >> 8)) >> 8), 0));
    }
  }
}

}  // namespace composer
