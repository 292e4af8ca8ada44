// What the markers before the first scan of a JPEG stream say, read without libjpeg.
#pragma once

#include <cstdint>
#include <span>

#include "base/loading/image_size.h"

namespace composer {

struct JpegHeader {
  ImageSize size;         ///< as stored, before `orientation` is applied
  int components = 0;     ///< 1, 3 or 4
  int precision = 8;      ///< bits a sample
  bool baseline = false;  ///< sequential Huffman coding of 8-bit samples (SOF0, SOF1)
  int orientation = 1;    ///< EXIF's, 1..8; 1 = upright

  /// The size once the orientation is applied.
  ImageSize upright_size() const {
    return orientation >= 5 ? ImageSize{size.width, size.height} : size;
  }
};

/// Costs about a microsecond. Throws RunError with the reason: no JPEG stream, damaged, without
/// pixels, or more than kMaxPixels.
JpegHeader read_jpeg_header(std::span<const uint8_t> bytes);

/// The orientation, 1..8, that a block of EXIF gives: a TIFF header and directory, with or without
/// "Exif\0\0" before; 0: none, or a senseless one.
int exif_orientation(std::span<const uint8_t> block);

}  // namespace composer
