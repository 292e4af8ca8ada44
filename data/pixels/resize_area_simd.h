// The area filter's passes in vector instructions; the same bytes as the plain ones.
#pragma once

#include <cstdint>
#include <span>

#include "data/pixels/resize_lanes.h"

namespace composer {

/// Along the rows, for lanes in windows of some size; out has room for lanes.values.
template <class Value>
struct AcrossKernel {
  int64_t lanes, window_bytes;
  void (*run)(const Lanes& lanes, const uint8_t* in, Value* out);
};

/// What the CPU has; nothing where that is no vector instructions. Of kernels along the rows, the
/// first whose windows hold what the lanes want is the best.
struct AreaKernels {
  /// LaneBytes::two, one step; weights: pack_pairs.
  std::span<const AcrossKernel<int16_t>> linear_across;
  /// rows hold n values rounded up to a multiple of 64.
  void (*linear_down)(const int16_t* const rows[2], const int32_t weights[2], int64_t n,
                      uint8_t* out) = nullptr;
  /// LaneBytes::one; weights: floats.
  std::span<const AcrossKernel<float>> box_across;
  /// weights: of each row, `weight_stride` floats apart. Rows as above.
  void (*box_down)(const float* const* rows, int64_t taps, const float* weights,
                   int64_t weight_stride, int64_t n, uint8_t* out) = nullptr;
};

const AreaKernels& area_kernels();

}  // namespace composer
