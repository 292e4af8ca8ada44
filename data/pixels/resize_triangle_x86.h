// The triangle filter's passes in vector instructions; the same bytes as the plain ones. Call them
// only where data/pixels/simd.h says that the CPU has the instructions.
#pragma once

#include <cstdint>

#include "composer/simd.h"
#include "data/pixels/resize_lanes.h"

#ifdef COMPOSER_X86

namespace composer {

/// lanes: 16 in windows of 64 bytes, LaneBytes::four; weights: levels 0, 1, 2 of pack_quads.
void triangle_across_avx512(const Lanes& lanes, const uint8_t* in, int64_t n, uint8_t* out);

/// lanes: 4 in windows of 16 bytes, LaneBytes::two; weights: the upper and the lower 11 bits.
void triangle_across_avx2(const Lanes& lanes, const uint8_t* in, int64_t n, uint8_t* out);

/// Three channels; any shrinking. firsts: of each output pixel, in bytes. weights:
/// [pixels][steps][4]: for each four taps the upper 11 bits of (k0, k1) and (k2, k3), then the
/// lower ones. Reads 16 bytes at each step of 12.
void triangle_across_wide_avx2(const int32_t* firsts, const uint32_t* weights, int64_t steps,
                               int64_t pixels, const uint8_t* in, uint8_t* out);

/// weights: [(taps + 3) / 4][3 levels], or for two taps the upper and the lower 11 bits.
void triangle_down_avx512(const uint8_t* const* rows, int64_t taps, const uint32_t* weights,
                          int64_t n, uint8_t* out);

/// weights: [(taps + 1) / 2][2]: the upper and the lower 11 bits.
void triangle_down_avx2(const uint8_t* const* rows, int64_t taps, const uint32_t* weights,
                        int64_t n, uint8_t* out);

}  // namespace composer

#endif
