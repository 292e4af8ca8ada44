// The decoders of single image formats; decode_image() chooses between them. All decode the first
// image of a file in memory to 8-bit RGB, drop transparency and throw RunError with the reason.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/pixels/image.h"

namespace composer {

/// Windows' and OS/2's bitmaps: 1, 4, 8 (with a palette), 16, 24 and 32 bits a pixel, RLE4 and
/// RLE8, channels by bit masks.
void decode_bmp(std::span<const uint8_t> bytes, Image& out);

/// The canvas around the first frame gets the frame's transparent colour, or colour 0, as in
/// Pillow.
void decode_gif(std::span<const uint8_t> bytes, Image& out);

/// Upright as EXIF's orientation says (the chunk eXIf, or a text "Raw profile type exif"). Palettes
/// and grays are expanded; samples of 16 bits lose the lower 8. warnings: gets libpng's complaints
/// about damage that left no pixel missing, one a line.
void decode_png(std::span<const uint8_t> bytes, Image& out, std::string* warnings = nullptr);

/// PBM, PGM and PPM, as text and as bytes (P1 to P6). Samples are scaled from their file's largest
/// value to 255.
void decode_pnm(std::span<const uint8_t> bytes, Image& out);

/// Upright as its orientation says: gray, palettes, RGB, CMYK and YCbCr of 1 to 16 bits a sample
/// (samples of 16 bits lose the lower 8), in strips or tiles. warnings: gets libtiff's complaints
/// about damage that left no pixel missing, one a line.
void decode_tiff(std::span<const uint8_t> bytes, Image& out, std::string* warnings = nullptr);

/// Upright as EXIF's orientation says. The canvas around the first frame is black.
void decode_webp(std::span<const uint8_t> bytes, Image& out);

/// The errors of one format's files; each throws RunError.
struct FormatErrors {
  const char* format;  ///< "BMP", for messages

  [[noreturn]] void refuse(const std::string& reason) const;
  [[noreturn]] void unsupported(const std::string& what) const;
  /// Throws for an image without pixels, or with more than kMaxPixels.
  void check_size(int64_t height, int64_t width) const;
  /// Throws for a canvas that is far larger than its frame: above `most` pixels, and above those
  /// that every canvas may have.
  void check_canvas(ImageSize frame, ImageSize canvas, int64_t most) const;
};

}  // namespace composer
