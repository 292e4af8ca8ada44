// The triangle filter's passes in vector instructions; the same bytes as the plain ones.
#pragma once

#include <cstdint>
#include <span>

#include "data/pixels/resize_lanes.h"

namespace composer {

/// How weights of kTriangleBits bits are cut into factors of one instruction.
enum class TriangleWeights {
  pairs,  ///< of two taps: the upper and the lower 11 bits
  quads,  ///< of four taps: levels 0, 1, 2 of pack_quads
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

/// What the CPU has; nothing where that is no vector instructions.
struct TriangleKernels {
  /// The first whose windows hold what the lanes want is the best.
  std::span<const TriangleAcrossKernel> across;
  /// Along the rows, three channels, any shrinking. firsts: of each output pixel, in bytes.
  /// weights: [pixels][steps][4]: for each four taps the upper 11 bits of (k0, k1) and (k2, k3),
  /// then the lower ones. Reads 16 bytes at each step of 12.
  void (*across_wide)(const int32_t* firsts, const uint32_t* weights, int64_t steps, int64_t pixels,
                      const uint8_t* in, uint8_t* out) = nullptr;
  TriangleDownKernel down_pairs = nullptr;
  /// For more than two taps better than pairs, where there is one.
  TriangleDownKernel down_quads = nullptr;
};

const TriangleKernels& triangle_kernels();

}  // namespace composer
