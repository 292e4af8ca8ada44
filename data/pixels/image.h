// Images as the data pipeline passes them: bytes, rows from the top, channels interleaved (HWC).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/loading/image_size.h"
#include "base/loading/sample_transform.h"  // MutableImage

namespace composer {

/// A view of pixels. `stride` is the number of bytes from one row to the next.
struct ImageView {
  const uint8_t* pixels = nullptr;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;  ///< 1 or 3
  int64_t stride = 0;

  const uint8_t* row(int64_t y) const { return pixels + y * stride; }
  /// The part that starts at (top, left); it must lie inside.
  ImageView crop(int64_t top, int64_t left, int64_t part_height, int64_t part_width) const {
    return {pixels + top * stride + left * channels, part_height, part_width, channels, stride};
  }
};

/// Whether memory is so much larger than wanted that it should not be kept.
inline bool far_above(size_t bytes, size_t wanted) {
  constexpr size_t usual = size_t{64} << 20;
  return bytes > usual && bytes / 8 > wanted;
}

/// Makes room for this many bytes of any value. Memory is kept, unless it is far_above.
inline void fit(std::vector<uint8_t>& memory, size_t bytes) {
  if (far_above(memory.capacity(), bytes)) memory = std::vector<uint8_t>();  // {} would keep it
  if (memory.size() < bytes) memory.resize(bytes);
}

/// An image that owns its pixels, without gaps between rows. Meant to be filled again and again.
struct Image {
  std::vector<uint8_t> pixels;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;

  void resize(int64_t new_height, int64_t new_width, int64_t new_channels) {
    height = new_height, width = new_width, channels = new_channels;
    fit(pixels, static_cast<size_t>(height * width * channels));
  }
  uint8_t* row(int64_t y) { return pixels.data() + y * width * channels; }
  ImageView view() const { return {pixels.data(), height, width, channels, width * channels}; }
};

/// Images with more pixels are refused: a few bytes of a damaged file could ask for all memory.
inline constexpr int64_t kMaxPixels = 178'956'970;

/// "WIDTH x HEIGHT", for messages.
inline std::string size_text(ImageSize size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

}  // namespace composer
