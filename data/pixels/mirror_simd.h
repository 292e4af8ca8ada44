// Mirrors rows pixel by pixel.
#pragma once

#include <cstdint>

namespace composer {

/// `count` rows of `width` pixels. Strides in bytes; in and out do not overlap.
struct MirroredRows {
  const uint8_t* in;
  int64_t in_stride;
  uint8_t* out;
  int64_t out_stride;
  int64_t count, width;
};

/// channels: 1 or 3.
void mirror_rows(const MirroredRows& rows, int64_t channels);

}  // namespace composer
