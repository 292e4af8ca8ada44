// The zig-zag order of a block's coefficients.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace composer {

/// at[i + 1] is the position in a block of the stream's coefficient i; 63 for positions beyond the
/// block.
struct NaturalOrder {
  std::array<uint8_t, 256> at{};

  constexpr NaturalOrder() {
    at.fill(63);
    int x = 0, y = 0;
    for (size_t i = 1; i <= 64; ++i) {
      at[i] = static_cast<uint8_t>(8 * y + x);
      const bool up = (x + y) % 2 == 0;
      if (up ? x == 7 : y == 7)
        ++(up ? y : x);
      else if (up ? y == 0 : x == 0)
        ++(up ? x : y);
      else
        x += up ? 1 : -1, y += up ? -1 : 1;
    }
  }
};
inline constexpr NaturalOrder kNatural;

}  // namespace composer
