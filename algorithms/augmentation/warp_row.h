// What a row of a warped image reads.
#pragma once

#include <cstdint>
#include <vector>

#include "base/loading/image_size.h"

namespace composer {

/// Where pixels read along one axis: everything is in float and rounded wherever torchvision rounds
/// (its matrix product rounds once an addition), so that ties fall to the same side.
struct WarpAxis {
  /// A pixel at (column, row) from the image's centre reads at x * column + y * row + constant from
  /// it, along an axis of `length` pixels.
  WarpAxis(double x, double y, double constant, int64_t length, ImageSize size);

  /// A row's distance from the centre -> its pixels' positions from the axis' first one, from -1 to
  /// `length`.
  void read(float row, std::vector<float>& positions) const;

  float half, last;              ///< of the length; the length
  float of_row, constant;        ///< as y and constant, where half the axis is 1
  std::vector<float> of_column;  ///< x * column in the same measure; zeros up to a multiple of 8
  bool fusible;  ///< one fused multiply-add adds a row's and a column's part exactly
};

/// A copy of an image with zeros around: one row and column before it, two after it, and 16 bytes.
struct WarpFrame {
  const uint8_t* pixels = nullptr;  ///< from the first row and column of zeros on
  int32_t row = 0;                  ///< bytes of one
  int32_t channels = 3;
};

/// The pixels at `row` from the centre, at most as many as the axes have columns. Vector
/// instructions, used where the CPU has them and both axes are fusible, give the same bytes.
void nearest_row(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from, int64_t n,
                 uint8_t* out);

/// Rounded to the nearest grey level.
void bilinear_row(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from, int64_t n,
                  uint8_t* out);

}  // namespace composer
