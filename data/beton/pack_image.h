// What becomes of an image on its way into a .beton file: taken over as it is, rewritten without
// loss, or decoded, made smaller and stored as a JPEG or as pixels.
#pragma once

#include <cstdint>
#include <optional>
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

struct PackOptions {
  WriteMode mode = WriteMode::jpg;
  /// Longer sides are shrunk to this (as FFCV: side lengths cut off to whole pixels, area filter).
  std::optional<int64_t> max_resolution;
  std::optional<int64_t> smart_threshold;  ///< bytes; without it mode smart stores pixels
  int jpeg_quality = 90;                   ///< 1..100, of what is encoded
  double compress_probability = 0.5;
  bool passthrough = true;  ///< JPEG streams that need no change are not decoded and encoded again
  /// Makes the crop index of each stream, by a walk along all its codes. Without it streams that
  /// are taken over are walked along only when their markers are not in order: damage between
  /// markers is not found then.
  bool index = true;
  uint64_t seed = 0;  ///< of the draws of mode proportion
};

enum class Packing {
  passed,      ///< a stream as it was
  transcoded,  ///< to a baseline stream with the same coefficients
  rotated,     ///< the same, turned upright
  encoded,     ///< from pixels, or from coefficients as if from pixels
  raw,
};

struct PackedImage {
  Packing packing = Packing::raw;
  bool resized = false;
  ImageSize size;
  std::vector<uint8_t> bytes{};
  std::vector<uint8_t>
      index{};  ///< of a JPEG stream (make_jpeg_index); empty when it has none or none was wanted

  bool is_jpeg() const { return packing != Packing::raw; }
};

/// One thread's; keeps its memory from image to image.
class ImagePacker {
 public:
  explicit ImagePacker(const PackOptions& options) : options_(options) {}

  /// Streams are checked to be whole, EXIF's orientation is applied. row: numbers the draws.
  /// scratch: the one that `image` was opened with. Throws RunError with the reason when pixels are
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
