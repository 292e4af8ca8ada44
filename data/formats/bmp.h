// Windows' and OS/2's bitmaps (BMP) in memory.
#pragma once

#include <cstdint>
#include <span>

#include "data/pixels/image.h"

namespace composer {

/// Decodes to RGB: 1, 4, 8 (with a palette), 16, 24 and 32 bits a pixel, RLE4 and RLE8, channels by
/// bit masks; transparency is dropped. Throws RunError with the reason.
void decode_bmp(std::span<const uint8_t> bytes, Image& out);

}  // namespace composer
