// byte_ops.h in AVX2. Each returns how many of the first values (or pixels) it took care of; none
// where the CPU lacks the instructions.
#pragma once

#include "algorithms/augmentation/byte_ops.h"

namespace composer::bytes {

int64_t stretch_avx2(const Stretch& by, uint8_t* values, int64_t n);
int64_t blend_avx2(const Blend& by, const uint8_t* others, uint8_t* values, int64_t n);
int64_t blend_avx2(const Blend& by, const float* others, uint8_t* values, int64_t n);
int64_t blend_greys_avx2(const Blend& by, uint8_t* pixels, int64_t n);

/// Adds the greys of the first pixels to `sum`.
int64_t sum_of_greys_avx2(const uint8_t* pixels, int64_t n, int64_t& sum);

}  // namespace composer::bytes
