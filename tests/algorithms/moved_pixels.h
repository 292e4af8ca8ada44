// Which pixels a shear, shift or rotation may give: where they are read is computed in double
// precision, together with what float32 arithmetic in any order, fused or not, can make of it.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "algorithms/augmentation/image_op.h"
#include "base/loading/image_size.h"

namespace composer::test {

inline bool moves(ImageOp op) { return op >= ImageOp::shear_x && op <= ImageOp::rotate; }

/// The pixel (x, y) of the result, from the image's centre, reads at
/// (xx * x + xy * y + x0, yx * x + yy * y + y0).
struct Mapping {
  double xx = 1, xy = 0, x0 = 0, yx = 0, yy = 1, y0 = 0;
};

inline Mapping mapping_of(ImageOp op, double magnitude, ImageSize size) {
  const double angle = magnitude * (std::numbers::pi / 180);
  switch (op) {
    case ImageOp::shear_x:
      return {.xy = magnitude, .x0 = magnitude * 0.5 * static_cast<double>(size.height)};
    case ImageOp::shear_y:
      return {.yx = magnitude, .y0 = magnitude * 0.5 * static_cast<double>(size.width)};
    case ImageOp::translate_x:
      return {.x0 = -std::trunc(magnitude)};
    case ImageOp::translate_y:
      return {.y0 = -std::trunc(magnitude)};
    default:
      return {.xx = std::cos(angle),
              .xy = -std::sin(angle),
              .yx = std::sin(angle),
              .yy = std::cos(angle)};
  }
}

constexpr double float_rounding = 0.5 * std::numeric_limits<float>::epsilon();

/// Along one axis, in pixels from the first one.
struct Position {
  /// Of `along + across + constant` from the centre of an axis of `length` pixels. A term is
  /// rounded at most eight times: the coefficient, its division by half the length, the product,
  /// two additions, and + 1, * length / 2, - 1 / 2 on the way back to pixels.
  Position(double along, double across, double constant, int64_t length)
      : at(along + across + constant + 0.5 * static_cast<double>(length) - 0.5),
        error(8 * float_rounding *
              (std::abs(along) + std::abs(across) + std::abs(constant) +
               0.5 * static_cast<double>(length))) {}

  double at, error;
};

/// An image before and after a step; `step.op` is one that moves.
struct MovedImage {
  const ImageStep& step;
  ImageSize size;
  int64_t channels;
  const uint8_t *before, *after;

  /// Pixels that are not what the step gives. Where a pixel lies half-way between two others, up to
  /// the error of its position, either is right. A bilinear one may be rounded to either side where
  /// it is half-way between two grey levels.
  int64_t wrong() const {
    const Mapping map = mapping_of(step.op, step.magnitude, size);
    const auto [xx, xy, x0, yx, yy, y0] = map;
    int64_t wrong = 0;
    for (int64_t i = 0; i < size.height; ++i)
      for (int64_t j = 0; j < size.width; ++j) {
        const double x = static_cast<double>(j) + 0.5 - 0.5 * static_cast<double>(size.width),
                     y = static_cast<double>(i) + 0.5 - 0.5 * static_cast<double>(size.height);
        const Position column(xx * x, xy * y, x0, size.width), row(yy * y, yx * x, y0, size.height);
        const uint8_t* const pixel = after + (i * size.width + j) * channels;
        const bool right = step.interpolation == Interpolation::nearest
                               ? is_near(row, column, pixel)
                               : is_blend(row, column, pixel);
        wrong += !right;
      }
    return wrong;
  }

 private:
  /// 0 outside.
  int value(double row, double column, int64_t channel) const {
    const auto i = static_cast<int64_t>(row), j = static_cast<int64_t>(column);
    const bool inside = 0 <= i && i < size.height && 0 <= j && j < size.width;
    return inside ? before[(i * size.width + j) * channels + channel] : 0;
  }

  bool is_near(const Position& row, const Position& column, const uint8_t* pixel) const {
    const auto near = [](const Position& position) {
      return std::array{std::nearbyint(position.at - position.error),
                        std::nearbyint(position.at + position.error)};
    };
    for (const double i : near(row))
      for (const double j : near(column)) {
        bool same = true;
        for (int64_t c = 0; c < channels; ++c) same = same && pixel[c] == value(i, j, c);
        if (same) return true;
      }
    return false;
  }

  bool is_blend(const Position& row, const Position& column, const uint8_t* pixel) const {
    const double top = std::floor(row.at), left = std::floor(column.at), south = row.at - top,
                 east = column.at - left;
    // A pixel's distance changes the colour by 255 at most. Shares and sums: five roundings.
    const double error = 255 * (row.error + column.error + 5 * float_rounding);
    for (int64_t c = 0; c < channels; ++c) {
      const double blend =
          (1 - south) * ((1 - east) * value(top, left, c) + east * value(top, left + 1, c)) +
          south * ((1 - east) * value(top + 1, left, c) + east * value(top + 1, left + 1, c));
      if (std::abs(pixel[c] - blend) > 0.5 + error) return false;
    }
    return true;
  }
};

}  // namespace composer::test
