// The passes of a resize in vector instructions; the same bytes as the plain ones.
#pragma once

#include <cstdint>
#include <span>

#include "data/pixels/resize_lanes.h"

namespace composer {

/// The split of weights of kTriangleBits bits into factors of one instruction.
enum class TriangleWeights {
  pairs,  ///< two taps: the lower 11 bits, never negative, and the signed rest
  quads,  ///< four taps: levels 0, 1, 2 of pack_quads
};

/// Along the rows, for lanes in windows of some size. lanes: LaneBytes::two for pairs, four for
/// quads; weights: [steps][levels][values].
struct TriangleAcrossKernel {
  TriangleWeights weights;
  int64_t lanes, window_bytes;
  void (*run)(const Lanes& lanes, const uint8_t* in, int64_t n, uint8_t* out);
};

/// Across the rows. weights: [steps][levels].
using TriangleDownKernel = void (*)(const uint8_t* const* rows, int64_t taps,
                                    const uint32_t* weights, int64_t n, uint8_t* out);

/// The kernels for this CPU; empty without vector instructions.
struct TriangleKernels {
  /// The best kernel is the first whose windows hold all bytes of the lanes.
  std::span<const TriangleAcrossKernel> across;
  /// Along the rows, three channels, any scale. firsts: byte offset of each output pixel's first
  /// tap. weights: [pixels][steps][4]: for each four taps the upper 11 bits of (k0, k1) and (k2,
  /// k3), then the lower ones. Reads 16 bytes at each step of 12.
  void (*across_wide)(const int32_t* firsts, const uint32_t* weights, int64_t steps, int64_t pixels,
                      const uint8_t* in, uint8_t* out) = nullptr;
  TriangleDownKernel down_pairs = nullptr;
  /// Faster than pairs for more than two taps; may be null.
  TriangleDownKernel down_quads = nullptr;
};

const TriangleKernels& triangle_kernels();

/// The area filter along the rows, for lanes in windows of some size; out has room for
/// lanes.values.
template <class Value>
struct AcrossKernel {
  int64_t lanes, window_bytes;
  void (*run)(const Lanes& lanes, const uint8_t* in, Value* out);
};

/// The kernels for this CPU; empty without vector instructions. The best kernel along the rows is
/// the first whose windows hold all bytes of the lanes.
struct AreaKernels {
  /// LaneBytes::two, one step; weights: pack_pairs.
  std::span<const AcrossKernel<int16_t>> linear_across;
  /// rows hold n values rounded up to a multiple of 64.
  void (*linear_down)(const int16_t* const rows[2], const int32_t weights[2], int64_t n,
                      uint8_t* out) = nullptr;
  /// LaneBytes::one; weights: floats.
  std::span<const AcrossKernel<float>> box_across;
  /// weights: one for each row, `weight_stride` floats apart. Rows as above.
  void (*box_down)(const float* const* rows, int64_t taps, const float* weights,
                   int64_t weight_stride, int64_t n, uint8_t* out) = nullptr;
};

const AreaKernels& area_kernels();

}  // namespace composer
