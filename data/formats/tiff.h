// TIFF files in memory, by libtiff.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/pixels/image.h"

namespace composer {

/// Decodes the first image to 8-bit RGB, upright as its orientation says: gray, palettes, RGB, CMYK
/// and YCbCr of 1 to 16 bits a sample (of 16 the upper 8), in strips or tiles; transparency is
/// dropped. Throws RunError with the reason. warnings: gets the decoder's complaints about damage
/// that left no pixel missing, one a line.
void decode_tiff(std::span<const uint8_t> bytes, Image& out, std::string* warnings = nullptr);

}  // namespace composer
