// The passes of OpenCV's INTER_AREA: two taps where an axis enlarges, the mean of what a pixel
// covers where both shrink.
#pragma once

#include <cstdint>

#include "data/pixels/image.h"
#include "data/pixels/resize_area_simd.h"
#include "data/pixels/resize_axis.h"
#include "data/pixels/resize_lanes.h"

namespace composer {

/// The pass along the rows. Value: int16_t, two taps to fixed point with 7 bits after the point; or
/// float, weighted sums.
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

/// The pass across the rows: output row y. rows: the axis's taps from position first[y] on; n:
/// values of each; there is room for a multiple of 64.
void area_down(const ResizeAxis& axis, const int16_t* const* rows, int64_t y, int64_t n,
               uint8_t* out);
void area_down(const ResizeAxis& axis, const float* const* rows, int64_t y, int64_t n,
               uint8_t* out);

/// The mean of each `down` by `across` pixels of the image, which is `window` times as large.
void shrink_by_whole_factors(const ImageView& image, ImageSize window, int64_t down, int64_t across,
                             bool flip, uint8_t* out);

}  // namespace composer
