// PNG files in memory, by libpng.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/pixels/image.h"

namespace composer {

/// Decodes to 8-bit RGB, upright as EXIF's orientation says (of the chunk eXIf, or of a text "Raw
/// profile type exif"): palettes and grays expanded, of 16 bits the upper 8, transparency dropped.
/// Throws RunError with the reason. warnings: gets the decoder's complaints about damage that left
/// no pixel missing, one a line.
void decode_png(std::span<const uint8_t> bytes, Image& out, std::string* warnings = nullptr);

}  // namespace composer
