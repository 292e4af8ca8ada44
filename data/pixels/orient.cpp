#include "data/pixels/orient.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace composer {
namespace {

/// The stored position of the upright image's first pixel, and the byte offsets to the pixels below
/// it and right of it.
struct Walk {
  const uint8_t* first;
  int64_t down;
  int64_t right;
};

Walk walk(const ImageView& stored, int orientation) {
  const bool up = bottom_up(orientation), left = right_to_left(orientation);
  Walk walk{
      stored.row(up ? stored.height - 1 : 0) + (left ? stored.width - 1 : 0) * stored.channels,
      up ? -stored.stride : stored.stride, left ? -stored.channels : stored.channels};
  if (turned(orientation)) std::swap(walk.down, walk.right);
  return walk;
}

template <int kChannels>
void copy_pixels(const Walk& from, Image& out) {
  // Copies in squares, so that a turned image's source pixels stay in the cache until their
  // neighbours are read.
  constexpr int64_t kSquare = 32;
  for (int64_t top = 0; top < out.height; top += kSquare) {
    const int64_t bottom = std::min(top + kSquare, out.height);
    for (int64_t left = 0; left < out.width; left += kSquare) {
      const int64_t right = std::min(left + kSquare, out.width);
      for (int64_t y = top; y < bottom; ++y) {
        const uint8_t* source = from.first + y * from.down + left * from.right;
        uint8_t* pixel = out.row(y) + left * kChannels;
        for (int64_t x = left; x < right; ++x, source += from.right, pixel += kChannels)
          for (int c = 0; c < kChannels; ++c) pixel[c] = source[c];
      }
    }
  }
}

}  // namespace

Box stored_box(const Box& upright, ImageSize stored, int orientation) {
  Box box = upright;
  if (turned(orientation)) {
    std::swap(box.top, box.left);
    std::swap(box.height, box.width);
  }
  if (bottom_up(orientation)) box.top = stored.height - box.top - box.height;
  if (right_to_left(orientation)) box.left = stored.width - box.left - box.width;
  return box;
}

void orient(const ImageView& stored, int orientation, Image& out) {
  const bool turn = turned(orientation);
  out.resize(turn ? stored.width : stored.height, turn ? stored.height : stored.width,
             stored.channels);
  if (out.height == 0 || out.width == 0) return;
  const Walk from = walk(stored, orientation);
  if (from.right == stored.channels) {
    const auto bytes = static_cast<size_t>(out.width * out.channels);
    for (int64_t y = 0; y < out.height; ++y)
      std::memcpy(out.row(y), from.first + y * from.down, bytes);
  } else if (stored.channels == 1) {
    copy_pixels<1>(from, out);
  } else {
    copy_pixels<3>(from, out);
  }
}

void apply_orientation(Image& image, int orientation) {
  if (orientation < 2 || orientation > 8) return;
  Image upright;
  orient(image.view(), orientation, upright);
  std::swap(image, upright);
}

}  // namespace composer
