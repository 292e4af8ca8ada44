#include "algorithms/augmentation/warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "algorithms/augmentation/warp_row.h"

namespace composer {
namespace {

/// The inverse of a rotation after shears, about a centre given from the image's centre; clockwise,
/// angles in radians.
Affine inverse(double rotation, double shear_x, double shear_y, double centre_x, double centre_y) {
  const double cosine = std::cos(rotation - shear_y) / std::cos(shear_y),
               sine = std::sin(rotation - shear_y) / std::cos(shear_y), tangent = std::tan(shear_x);
  Affine m{.xx = -sine * tangent + std::cos(rotation),
           .xy = cosine * tangent + std::sin(rotation),
           .yx = -sine,
           .yy = cosine};
  m.x0 = centre_x - m.xx * centre_x - m.xy * centre_y;
  m.y0 = centre_y - m.yx * centre_x - m.yy * centre_y;
  return m;
}

/// A copy of the image in the thread's scratch memory: at most one a thread at a time.
WarpFrame framed(const MutableImage& image) {
  thread_local std::vector<uint8_t> bytes;
  const int64_t row = image.width * image.channels, framed_row = row + 3 * image.channels;
  bytes.assign(static_cast<size_t>((image.height + 3) * framed_row + 16), 0);
  uint8_t* const inside = bytes.data() + framed_row + image.channels;
  for (int64_t y = 0; y < image.height; ++y)
    std::memcpy(inside + y * framed_row, image.pixels + y * row, static_cast<size_t>(row));
  return {bytes.data(), static_cast<int32_t>(framed_row), static_cast<int32_t>(image.channels)};
}

}  // namespace

Affine affine_of(ImageOp op, double magnitude, ImageSize size) {
  const double left = -0.5 * static_cast<double>(size.width),
               top = -0.5 * static_cast<double>(size.height);
  switch (op) {
    case ImageOp::shear_x:
      return inverse(0, std::atan(magnitude), 0, left, top);
    case ImageOp::shear_y:
      return inverse(0, 0, std::atan(magnitude), left, top);
    case ImageOp::translate_x:
      return {.x0 = -std::trunc(magnitude)};
    case ImageOp::translate_y:
      return {.y0 = -std::trunc(magnitude)};
    case ImageOp::rotate:
      return inverse(-magnitude * (std::numbers::pi / 180), 0, 0, 0, 0);
    default:
      return {};
  }
}

void warp(const Affine& affine, Interpolation interpolation, const MutableImage& image) {
  const WarpFrame from = framed(image);
  const ImageSize size{image.height, image.width};
  const WarpAxis x(affine.xx, affine.xy, affine.x0, image.width, size),
      y(affine.yx, affine.yy, affine.y0, image.height, size);
  const auto read_row = interpolation == Interpolation::nearest ? nearest_row : bilinear_row;
  const float top = 0.5f - 0.5f * static_cast<float>(image.height);
  for (int64_t row = 0; row < image.height; ++row)
    read_row(x, y, top + static_cast<float>(row), from, image.width,
             image.pixels + row * image.width * image.channels);
}

void shift(int64_t right, int64_t down, const MutableImage& image) {
  const int64_t row = image.width * image.channels;
  const int64_t columns = std::clamp(right, -image.width, image.width) * image.channels,
                rows = std::clamp(down, -image.height, image.height);
  const auto kept = static_cast<size_t>(row - std::abs(columns));
  for (int64_t i = 0; i < image.height; ++i) {
    const int64_t y = down > 0 ? image.height - 1 - i : i;  // no row is read after it was written
    uint8_t* const to = image.pixels + y * row;
    const int64_t source = y - rows;
    if (source < 0 || source >= image.height) {
      std::memset(to, 0, static_cast<size_t>(row));
      continue;
    }
    std::memmove(to + std::max<int64_t>(columns, 0),
                 image.pixels + source * row + std::max<int64_t>(-columns, 0), kept);
    std::memset(columns > 0 ? to : to + kept, 0, static_cast<size_t>(std::abs(columns)));
  }
}

}  // namespace composer
