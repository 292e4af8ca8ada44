// Turns an image into the form that a .beton file stores: the stream as it is, a stream rewritten
// without loss, or an image that is decoded, made smaller and stored as a JPEG or as pixels.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/jpeg/requantize.h"
#include "data/pixels/resize.h"
#include "data/samples/source.h"

namespace composer {

enum class WriteMode {
  keep,        ///< JPEG streams stay JPEG, pixels stay pixels
  raw,         ///< pixels
  jpg,         ///< JPEG
  proportion,  ///< JPEG with compress_probability, else pixels
  smart,       ///< JPEG where the pixels have more bytes than smart_threshold
};

/// The words of recipes and command lines.
inline const std::map<std::string, WriteMode> write_mode_words{
    {"keep", WriteMode::keep},
    {"raw", WriteMode::raw},
    {"jpg", WriteMode::jpg},
    {"proportion", WriteMode::proportion},
    {"smart", WriteMode::smart}};

struct PackOptions {
  WriteMode mode = WriteMode::jpg;
  /// Longer sides are shrunk to this (as FFCV: side lengths truncated to whole pixels, area
  /// filter).
  std::optional<int64_t> max_resolution;
  std::optional<int64_t> smart_threshold;  ///< bytes; without it mode smart stores pixels
  int jpeg_quality = 90;                   ///< 1..100, of images that are encoded
  double compress_probability = 0.5;
  bool passthrough = true;  ///< JPEG streams that need no change are not decoded and encoded again
  /// Makes the crop index of each stream by decoding all its codes. Without it a stream that is
  /// taken over is decoded only when its markers are not in order, so damage between markers is not
  /// found.
  bool index = true;
  uint64_t seed = 0;  ///< seed of mode proportion's draws
};

enum class Packing {
  passed,      ///< a stream as it was
  transcoded,  ///< made a baseline stream with the same coefficients
  rotated,     ///< the same, turned upright
  encoded,     ///< encoded from pixels, or from coefficients as if from pixels
  raw,
};

struct PackedImage {
  Packing packing = Packing::raw;
  bool resized = false;
  ImageSize size;
  std::vector<uint8_t> bytes{};
  std::vector<uint8_t> index{};  ///< crop index of a JPEG stream (make_jpeg_index); else empty

  bool is_jpeg() const { return packing != Packing::raw; }
};

/// Packs images on one thread, and keeps its memory from image to image.
class ImagePacker {
 public:
  explicit ImagePacker(const PackOptions& options) : options_(options) {}

  /// Streams are checked to be whole; EXIF's orientation is applied. row: the draws' number.
  /// scratch: the scratch that opened `image`. Throws RunError with the reason when pixels are
  /// missing or the image is too large for the format.
  PackedImage pack(StoredImage image, int64_t row, ReadScratch& scratch);

 private:
  bool wants_jpeg(const StoredImage& image, ImageSize size, int64_t row) const;
  ImageView decode(const StoredImage& image, ImageSize size, ReadScratch& scratch);

  PackOptions options_;
  JpegRequantizer requantizer_;
  ResizePlan plan_;
  Image resized_, rgb_;
};

/// The size that max_resolution gives an image, as FFCV computes it; at least 1 x 1.
ImageSize packed_size(ImageSize size, std::optional<int64_t> max_resolution);

}  // namespace composer
