// An image file in memory -> pixels. The content tells the format, not the file's name.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/image.h"

namespace composer {

/// Decodes a JPEG, PNG, GIF (first frame), WebP (first frame) or PNM file to RGB, a JPEG upright as
/// its EXIF orientation says. Throws RunError with the reason; another known format is named.
/// warnings: as decode_jpeg and decode_png.
void decode_image(std::span<const uint8_t> bytes, Image& out, std::string* warnings = nullptr);

/// RGB to one channel of luma (ITU-R 601, as Pillow's mode L), in place.
void to_gray(Image& image);

}  // namespace composer
