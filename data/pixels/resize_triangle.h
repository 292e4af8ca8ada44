// The two passes of the triangle filter, each rounding to bytes as Pillow's do.
#pragma once

#include <cstdint>
#include <vector>

#include "data/pixels/resize_axis.h"
#include "data/pixels/resize_lanes.h"
#include "data/pixels/resize_triangle_simd.h"

namespace composer {

/// Along the rows.
class TriangleAcross {
 public:
  /// The axis must outlive the use of run.
  void prepare(const ResizeAxis& axis, int64_t channels, bool flip);

  /// How many bytes run may read from where a row begins.
  int64_t bytes_read() const { return bytes_read_; }

  /// in: a row, from the axis's first position on. out: outputs * channels bytes.
  void run(const uint8_t* in, uint8_t* out) const;

 private:
  void prepare_wide();

  const ResizeAxis* axis_ = nullptr;
  int64_t channels_ = 0, bytes_read_ = 0;
  bool flip_ = false;
  const TriangleAcrossKernel* kernel_ = nullptr;
  Lanes lanes_;
  decltype(TriangleKernels::across_wide) wide_ = nullptr;
  int64_t wide_steps_ = 0;
  std::vector<int32_t> wide_firsts_;
  std::vector<uint32_t> wide_weights_;
};

/// Across the rows.
class TriangleDown {
 public:
  /// The axis must outlive the use of run.
  void prepare(const ResizeAxis& axis);

  /// Output row y. rows: the axis's taps from position first[y] on; n: bytes of each.
  void run(const uint8_t* const* rows, int64_t y, int64_t n, uint8_t* out) const;

 private:
  const ResizeAxis* axis_ = nullptr;
  TriangleDownKernel kernel_ = nullptr;
  int64_t row_weights_ = 0;        ///< how many numbers a row's weights take
  std::vector<uint32_t> weights_;  ///< [outputs][row_weights_]
  std::vector<uint32_t> by_position_;
};

}  // namespace composer
