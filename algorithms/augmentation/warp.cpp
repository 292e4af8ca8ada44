#include "algorithms/augmentation/warp.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numbers>

#include "algorithms/augmentation/warp_row_simd.h"

namespace composer {
namespace {

/// The inverse of a rotation after shears about a centre, relative to the image's centre. Angles
/// are clockwise, in radians.
AffineMap inverse(double rotation, double shear_x, double shear_y, double centre_x,
                  double centre_y) {
  const double cosine = std::cos(rotation - shear_y) / std::cos(shear_y),
               sine = std::sin(rotation - shear_y) / std::cos(shear_y), tangent = std::tan(shear_x);
  AffineMap m{.xx = -sine * tangent + std::cos(rotation),
              .xy = cosine * tangent + std::sin(rotation),
              .yx = -sine,
              .yy = cosine};
  m.x0 = centre_x - m.xx * centre_x - m.xy * centre_y;
  m.y0 = centre_y - m.yx * centre_x - m.yy * centre_y;
  return m;
}

/// A copy of the image in memory of the thread, valid until the thread's next call.
WarpFrame framed(const MutableImage& image) {
  thread_local std::vector<uint8_t> bytes;
  const int64_t row = image.width * image.channels, framed_row = row + 3 * image.channels;
  bytes.assign(static_cast<size_t>((image.height + 3) * framed_row + 16), 0);
  uint8_t* const inside = bytes.data() + framed_row + image.channels;
  for (int64_t y = 0; y < image.height; ++y)
    std::memcpy(inside + y * framed_row, image.pixels + y * row, static_cast<size_t>(row));
  return {bytes.data(), static_cast<int32_t>(framed_row), static_cast<int32_t>(image.channels)};
}

/// To the nearest whole number, ties to the even one; |value| < 2^22.
template <class T>
T round_even(T value) {
  constexpr float magic = 12582912;  // 1.5 * 2^23: adding it leaves no bits for a fraction
  return (value + magic) - magic;
}

void nearest_offsets(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from,
                     int32_t* offsets) {
  thread_local std::vector<float> xs, ys;
  x.read(row, xs), y.read(row, ys);
  const float *const x_of = xs.data(), *const y_of = ys.data();
  const int32_t bytes = from.row, channels = from.channels;
  const auto n = static_cast<int>(xs.size());
  for (int i = 0; i < n; ++i)
    offsets[i] = (static_cast<int32_t>(round_even(y_of[i])) + 1) * bytes +
                 (static_cast<int32_t>(round_even(x_of[i])) + 1) * channels;
}

using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));

/// Converts four bytes to floats.
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
void blend_row(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from, int64_t size,
               uint8_t* out) {
  thread_local std::vector<float> xs, ys, shares;
  thread_local std::vector<int32_t> places;
  x.read(row, xs), y.read(row, ys);
  places.resize(xs.size()), shares.resize(4 * xs.size());
  const auto n = static_cast<int>(size), bytes = static_cast<int>(from.row);
  const float *const x_of = xs.data(), *const y_of = ys.data();
  int32_t* const offsets = places.data();
  float *const north_west = shares.data(), *const north_east = north_west + n,
               *const south_west = north_east + n, *const south_east = south_west + n;
  for (int i = 0; i < n; ++i) {
    const auto column = static_cast<int32_t>(x_of[i] + 1), line = static_cast<int32_t>(y_of[i] + 1);
    const float east = x_of[i] - static_cast<float>(column - 1), west = 1 - east;
    const float south = y_of[i] - static_cast<float>(line - 1), north = 1 - south;
    offsets[i] = line * bytes + column * channels;
    north_west[i] = north * west, north_east[i] = north * east;
    south_west[i] = south * west, south_east[i] = south * east;
  }
  const uint8_t* const source = from.pixels;
  for (int i = 0; i < n; ++i) {
    const uint8_t *const at = source + offsets[i], *const below = at + bytes;
    const Floats sum = load(at) * north_west[i] + load(at + channels) * north_east[i] +
                       load(below) * south_west[i] + load(below + channels) * south_east[i];
    const Ints rounded = __builtin_convertvector(round_even(sum), Ints);
    for (int c = 0; c < channels; ++c) out[channels * i + c] = static_cast<uint8_t>(rounded[c]);
  }
}

}  // namespace

AffineMap affine_of(ImageOp op, double magnitude, ImageSize size) {
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

void warp(const AffineMap& affine, Interpolation interpolation, const MutableImage& image) {
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

WarpAxis::WarpAxis(double x, double y, double constant, int64_t length, ImageSize size)
    : half(0.5f * static_cast<float>(length)),
      last(static_cast<float>(length)),
      of_row(static_cast<float>(y) / half),
      constant(static_cast<float>(constant) / half),
      of_column(static_cast<size_t>((size.width + 7) / 8 * 8)) {
  const float step = static_cast<float>(x) / half,
              first = 0.5f - 0.5f * static_cast<float>(size.width);
  for (int64_t i = 0; i < size.width; ++i)
    of_column[static_cast<size_t>(i)] = (first + static_cast<float>(i)) * step;
  // No sum has more than the 53 bits of a double then, so that read() rounds once too.
  fusible = step == 0 || of_row == 0 ||
            std::abs(std::ilogb(step) - std::ilogb(of_row)) +
                    std::bit_width(static_cast<uint64_t>(size.height + size.width)) <=
                29;
}

void WarpAxis::read(float row, std::vector<float>& positions) const {
  positions.resize(of_column.size());
  const double of_this_row = static_cast<double>(row) * of_row, scale = half;
  const float added = constant, end = last;
  const float* const columns = of_column.data();
  float* const out = positions.data();
  const auto n = static_cast<int>(positions.size());
  for (int i = 0; i < n; ++i) {
    const float sum = static_cast<float>(of_this_row + columns[i]) + added;
    const auto position = static_cast<float>(static_cast<double>(sum + 1) * scale - 0.5);
    const float low = position > -1 ? position : -1;
    out[i] = low < end ? low : end;
  }
}

void nearest_row(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from, int64_t n,
                 uint8_t* out) {
  thread_local std::vector<int32_t> offsets;
  offsets.resize(x.of_column.size());
  if (!nearest_offsets_fused(x, y, row, from, offsets.data()))
    nearest_offsets(x, y, row, from, offsets.data());
  const uint8_t* const pixels = from.pixels;
  const int32_t* at = offsets.data();
  if (from.channels == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = pixels[at[i]];
    return;
  }
  for (int64_t i = 0; i < n - 1; ++i) std::memcpy(out + 3 * i, pixels + at[i], 4);
  std::memcpy(out + 3 * (n - 1), pixels + at[n - 1], 3);
}

void bilinear_row(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from, int64_t n,
                  uint8_t* out) {
  if (from.channels == 1) return blend_row<1>(x, y, row, from, n, out);
  if (bilinear_row_fused(x, y, row, from, n, out)) return;
  blend_row<3>(x, y, row, from, n, out);
}

}  // namespace composer
