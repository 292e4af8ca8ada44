// Shears, rotations and shifts of an image, by the arithmetic of torchvision's functional.affine
// and functional.rotate on tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/augmentation/image_op.h"
#include "base/loading/image_size.h"

namespace composer {

/// Where the pixel (x, y) of the result is read: at (xx * x + xy * y + x0, yx * x + yy * y + y0),
/// in pixels from the image's centre, y downwards.
struct AffineMap {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;
};

/// The map of shear_x, shear_y, translate_x, translate_y or rotate; the identity for other
/// operations.
AffineMap affine_of(ImageOp op, double magnitude, ImageSize size);

/// Moves the pixels in place; pixels outside the image are 0. Interpolation::bilinear rounds to the
/// nearest grey level.
void warp(const AffineMap& affine, Interpolation interpolation, const MutableImage& image);

/// Moves the image by whole pixels, in place; the rest is 0.
void shift(int64_t right, int64_t down, const MutableImage& image);

/// The positions that are read along one axis, in float and rounded where torchvision rounds (its
/// matrix product rounds once per addition), so that ties are resolved alike.
struct WarpAxis {
  /// A pixel at (column, row) from the image's centre reads at x * column + y * row + constant from
  /// the centre of an axis of `length` pixels.
  WarpAxis(double x, double y, double constant, int64_t length, ImageSize size);

  /// row: distance from the centre -> the positions of the row's pixels from the axis' first pixel,
  /// from -1 to `length`.
  void read(float row, std::vector<float>& positions) const;

  float half, last;        ///< half the length; the length
  float of_row, constant;  ///< y and constant in units of half
  std::vector<float>
      of_column;  ///< x * column in units of half; padded with zeros to a multiple of 8
  bool fusible;   ///< true if one fused multiply-add adds the parts of row and column exactly
};

/// A copy of an image surrounded by zeros: one row and column before, two after, and 16 bytes.
struct WarpFrame {
  const uint8_t* pixels = nullptr;  ///< first byte of the zeros
  int32_t row = 0;                  ///< bytes of a row
  int32_t channels = 3;
};

/// The n nearest pixels of the row at distance `row` from the centre; n is at most the columns of
/// the axes. Vector instructions, used if both axes are fusible, give the same bytes.
void nearest_row(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from, int64_t n,
                 uint8_t* out);

/// The same with bilinear interpolation, rounded to the nearest grey level.
void bilinear_row(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from, int64_t n,
                  uint8_t* out);

}  // namespace composer
