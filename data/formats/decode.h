// An image file in memory -> pixels. The content tells the format, not the file's name.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/pixels/image.h"

namespace composer {

inline constexpr const char* kImageFormats = "JPEG, PNG, GIF, WebP, BMP, TIFF and PNM";

/// Decodes a file of one of these formats to RGB: the first of several images, turned upright as a
/// JPEG, PNG, WebP or TIFF says. Throws RunError with the reason, which names other known formats.
/// warnings: as decode_jpeg, decode_png and decode_tiff.
void decode_image(std::span<const uint8_t> bytes, Image& out, std::string* warnings = nullptr);

/// RGB to one channel of luma (ITU-R 601, as Pillow's mode L), in place.
void to_gray(Image& image);

}  // namespace composer
