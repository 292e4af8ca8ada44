// JPEG files in memory, by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/pixels/image.h"

namespace composer {

/// Decodes to RGB as Pillow does: accurate integer DCT, smooth upsampling, grayscale and CMYK
/// converted, EXIF orientation not applied. Throws RunError with the reason, also when the data end
/// before the last pixel. warnings: gets the decoder's complaints about damage that left no pixel
/// missing, one a line.
void decode_jpeg(std::span<const uint8_t> bytes, Image& out, std::string* warnings = nullptr);

/// An RGB image as a baseline JPEG with 4:2:0 subsampling; quality 1..100.
std::vector<uint8_t> encode_jpeg(const ImageView& image, int quality);

}  // namespace composer
