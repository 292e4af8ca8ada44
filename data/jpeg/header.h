// The markers before the first scan of a JPEG stream, read without libjpeg.
#pragma once

#include <cstdint>
#include <span>

#include "base/loading/image_size.h"

namespace composer {

/// Codes of markers: the byte behind 0xFF.
enum JpegMarker : uint8_t {
  kTem = 0x01,
  kSof0 = 0xC0,
  kSof1 = 0xC1,
  kDht = 0xC4,
  kJpg = 0xC8,
  kDac = 0xCC,
  kSof15 = 0xCF,
  kRst0 = 0xD0,
  kRst7 = 0xD7,
  kSoi = 0xD8,
  kEoi = 0xD9,
  kSos = 0xDA,
  kDqt = 0xDB,
  kDri = 0xDD,
  kApp0 = 0xE0,
  kApp1 = 0xE1,
  kApp14 = 0xEE,
  kApp15 = 0xEF,
  kCom = 0xFE,
};

/// Moves `at` behind the next marker and returns its code, or 0 at the end. Like libjpeg it skips
/// bytes that belong to no marker, and any number of 0xFF may stand before the code.
uint8_t next_marker(std::span<const uint8_t> bytes, size_t& at);

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

/// Takes about a microsecond. Throws RunError with the reason: no JPEG stream, damaged, no pixels,
/// or more than kMaxPixels.
JpegHeader read_jpeg_header(std::span<const uint8_t> bytes);

/// The orientation, 1..8, in a block of EXIF: a TIFF header and directory, with or without a
/// leading "Exif\0\0". 0 when it is missing or invalid.
int exif_orientation(std::span<const uint8_t> block);

}  // namespace composer
