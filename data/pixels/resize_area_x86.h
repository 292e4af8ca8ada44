// The area filter's passes in vector instructions; the same bytes as the plain ones. Call them only
// where data/pixels/simd.h says that the CPU has the instructions.
#pragma once

#include <cstdint>

#include "composer/simd.h"
#include "data/pixels/resize_lanes.h"

#ifdef COMPOSER_X86

namespace composer {

/// lanes: LaneBytes::two, one step; weights: pack_pairs. AVX-512: 16 in windows of 64 bytes; AVX2:
/// 4 in windows of 16. out has room for lanes.values.
void linear_across_avx512(const Lanes& lanes, const uint8_t* in, int16_t* out);
void linear_across_avx2(const Lanes& lanes, const uint8_t* in, int16_t* out);

/// rows hold n values rounded up to a multiple of 64.
void linear_down_avx512(const int16_t* const rows[2], const int32_t weights[2], int64_t n,
                        uint8_t* out);
void linear_down_avx2(const int16_t* const rows[2], const int32_t weights[2], int64_t n,
                      uint8_t* out);

/// lanes: LaneBytes::one; weights: floats. Windows and room as above.
void box_across_avx512(const Lanes& lanes, const uint8_t* in, float* out);
void box_across_avx2(const Lanes& lanes, const uint8_t* in, float* out);

/// weights: of each row, `weight_stride` floats apart. Rows as above.
void box_down_avx512(const float* const* rows, int64_t taps, const float* weights,
                     int64_t weight_stride, int64_t n, uint8_t* out);
void box_down_avx2(const float* const* rows, int64_t taps, const float* weights,
                   int64_t weight_stride, int64_t n, uint8_t* out);

}  // namespace composer

#endif
