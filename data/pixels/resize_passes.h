// The passes of a resize along and across the rows. Those of the triangle and the bicubic filter
// round to bytes as Pillow's do. OpenCV's INTER_AREA takes two taps where an axis enlarges, and the
// mean of the pixels that an output pixel covers where both axes shrink.
#pragma once

#include <cstdint>
#include <vector>

#include "data/pixels/image.h"
#include "data/pixels/resize_axis.h"
#include "data/pixels/resize_lanes.h"
#include "data/pixels/resize_simd.h"

namespace composer {

/// The triangle or the bicubic filter along the rows.
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

/// The triangle or the bicubic filter across the rows.
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

/// The area filter along the rows. Value: int16_t, two taps to fixed point with 7 bits after the
/// point; or float, weighted sums.
template <class Value>
class AreaAcross {
 public:
  /// The axis must outlive the use of run.
  void prepare(const ResizeAxis& axis, int64_t channels, bool flip);
  /// How many bytes run may read from where a row begins.
  int64_t bytes_read() const { return bytes_read_; }
  /// in: a row, from the axis's first position on. out: room for outputs * channels values, rounded
  /// up to a multiple of 64.
  void run(const uint8_t* in, Value* out) const;

 private:
  const ResizeAxis* axis_ = nullptr;
  int64_t channels_ = 0, bytes_read_ = 0;
  bool flip_ = false;
  const AcrossKernel<Value>* kernel_ = nullptr;
  Lanes lanes_;
};

/// The area filter across the rows: output row y. rows: the axis's taps from position first[y] on;
/// n: values of each; there is room for a multiple of 64.
void area_down(const ResizeAxis& axis, const int16_t* const* rows, int64_t y, int64_t n,
               uint8_t* out);
void area_down(const ResizeAxis& axis, const float* const* rows, int64_t y, int64_t n,
               uint8_t* out);

/// The mean of each `down` by `across` pixels of the image, which is `window` times as large.
void shrink_by_whole_factors(const ImageView& image, ImageSize window, int64_t down, int64_t across,
                             bool flip, uint8_t* out);

}  // namespace composer
