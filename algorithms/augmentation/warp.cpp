#include "algorithms/augmentation/warp.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

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

/// A copy of the image with zeros around: one row and column before it, two after it. At most one a
/// thread at a time: it lives in the thread's scratch memory.
class Framed {
 public:
  explicit Framed(const MutableImage& image)
      : channels_(image.channels), row_((image.width + 3) * image.channels) {
    bytes_.assign(static_cast<size_t>((image.height + 3) * row_ + 8), 0);
    const int64_t row = image.width * image.channels;
    for (int64_t y = 0; y < image.height; ++y)
      std::memcpy(bytes_.data() + offset(0, y), image.pixels + y * row, static_cast<size_t>(row));
  }

  /// x in [-1, width + 1], y in [-1, height + 1].
  int64_t offset(int64_t x, int64_t y) const { return (y + 1) * row_ + (x + 1) * channels_; }
  int64_t row() const { return row_; }
  const uint8_t* data() const { return bytes_.data(); }

 private:
  int64_t channels_, row_;
  static inline thread_local std::vector<uint8_t> bytes_;
};

/// Where the pixels of a row read along one axis: in float, rounded wherever torchvision rounds
/// (its matrix product rounds once an addition), so that ties fall to the same side.
class Axis {
 public:
  Axis(double x, double y, double constant, int64_t size)
      : x_(scaled(x, size)),
        y_(scaled(y, size)),
        constant_(scaled(constant, size)),
        half_(static_cast<double>(size) / 2),
        last_(static_cast<float>(size)) {}

  /// For the pixels first_x, first_x + 1, ... of row y: pixels from the first one, in [-1, size].
  void read(float first_x, float y, std::vector<float>& positions) const {
    const double of_row = static_cast<double>(y) * y_;
    const auto n = static_cast<int>(positions.size());
    float* const out = positions.data();
    for (int i = 0; i < n; ++i) {
      const float of_column = (first_x + static_cast<float>(i)) * x_;
      const float sum = static_cast<float>(of_row + of_column) + constant_;
      const auto position = static_cast<float>(static_cast<double>(sum + 1) * half_ - 0.5);
      const float low = position > -1 ? position : -1;
      out[i] = low < last_ ? low : last_;
    }
  }

 private:
  static float scaled(double value, int64_t size) {
    return static_cast<float>(value) / (0.5f * static_cast<float>(size));
  }

  float x_, y_, constant_;
  double half_;
  float last_;
};

/// To the nearest whole number, ties to the even one; |value| < 2^22.
template <class T>
T round_even(T value) {
  constexpr float magic = 12582912;  // 1.5 * 2^23: adding it leaves no bits for a fraction
  return (value + magic) - magic;
}

void nearest_row(const Framed& from, const std::vector<float>& xs, const std::vector<float>& ys,
                 int64_t channels, uint8_t* out) {
  thread_local std::vector<int32_t> scratch;
  scratch.resize(xs.size());
  int32_t* const offsets = scratch.data();
  const float *const x_of = xs.data(), *const y_of = ys.data();
  const auto n = static_cast<int>(xs.size());
  const auto row = static_cast<int32_t>(from.row()), pixel = static_cast<int32_t>(channels);
  for (int i = 0; i < n; ++i)
    offsets[i] = (static_cast<int32_t>(round_even(y_of[i])) + 1) * row +
                 (static_cast<int32_t>(round_even(x_of[i])) + 1) * pixel;
  const uint8_t* const source = from.data();
  if (channels == 1) {
    for (int i = 0; i < n; ++i) out[i] = source[offsets[i]];
  } else {
    for (int i = 0; i < n; ++i) std::memcpy(out + 3 * i, source + offsets[i], 3);
  }
}

using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));

/// Four bytes as numbers.
inline Floats load(const uint8_t* at) {
  using Bytes = uint8_t __attribute__((vector_size(16)));
  using Shorts = uint16_t __attribute__((vector_size(16)));
  uint32_t bits;
  std::memcpy(&bits, at, 4);
  const auto bytes = std::bit_cast<Bytes>(Ints{static_cast<int32_t>(bits)});
  const auto shorts = std::bit_cast<Shorts>(__builtin_shufflevector(
      bytes, Bytes{}, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
  return __builtin_convertvector(
      std::bit_cast<Ints>(__builtin_shufflevector(shorts, Shorts{}, 0, 8, 1, 9, 2, 10, 3, 11)),
      Floats);
}

template <int channels>
void bilinear_row(const Framed& from, const std::vector<float>& xs, const std::vector<float>& ys,
                  uint8_t* out) {
  thread_local std::vector<int32_t> places;
  thread_local std::vector<float> shares;
  places.resize(xs.size()), shares.resize(4 * xs.size());
  const auto n = static_cast<int>(xs.size()), row = static_cast<int>(from.row());
  const float *const x_of = xs.data(), *const y_of = ys.data();
  int32_t* const offsets = places.data();
  float *const north_west = shares.data(), *const north_east = north_west + n,
               *const south_west = north_east + n, *const south_east = south_west + n;
  for (int i = 0; i < n; ++i) {
    const auto column = static_cast<int32_t>(x_of[i] + 1), line = static_cast<int32_t>(y_of[i] + 1);
    const float east = x_of[i] - static_cast<float>(column - 1), west = 1 - east;
    const float south = y_of[i] - static_cast<float>(line - 1), north = 1 - south;
    offsets[i] = line * row + column * channels;
    north_west[i] = north * west, north_east[i] = north * east;
    south_west[i] = south * west, south_east[i] = south * east;
  }
  const uint8_t* const source = from.data();
  for (int i = 0; i < n; ++i) {
    const uint8_t *const at = source + offsets[i], *const below = at + row;
    const Floats sum = load(at) * north_west[i] + load(at + channels) * north_east[i] +
                       load(below) * south_west[i] + load(below + channels) * south_east[i];
    const Ints rounded = __builtin_convertvector(round_even(sum), Ints);
    for (int c = 0; c < channels; ++c) out[channels * i + c] = static_cast<uint8_t>(rounded[c]);
  }
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
  const Framed from(image);
  const Axis x_axis(affine.xx, affine.xy, affine.x0, image.width),
      y_axis(affine.yx, affine.yy, affine.y0, image.height);
  const float first_x = 0.5f - 0.5f * static_cast<float>(image.width),
              first_y = 0.5f - 0.5f * static_cast<float>(image.height);
  std::vector<float> xs(static_cast<size_t>(image.width)), ys(xs.size());
  for (int64_t row = 0; row < image.height; ++row) {
    const float y = first_y + static_cast<float>(row);
    x_axis.read(first_x, y, xs);
    y_axis.read(first_x, y, ys);
    uint8_t* const out = image.pixels + row * image.width * image.channels;
    if (interpolation == Interpolation::nearest)
      nearest_row(from, xs, ys, image.channels, out);
    else if (image.channels == 1)
      bilinear_row<1>(from, xs, ys, out);
    else
      bilinear_row<3>(from, xs, ys, out);
  }
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
