// WebP files in memory, by libwebp.
#pragma once

#include <cstdint>
#include <span>

#include "data/pixels/image.h"

namespace composer {

/// Decodes to RGB, upright as EXIF's orientation says, transparency dropped; of an animation the
/// first frame, with black where it leaves the canvas free. Throws RunError with the reason.
void decode_webp(std::span<const uint8_t> bytes, Image& out);

}  // namespace composer
