// byte_ops.h in vector instructions. Each function processes the first values (or pixels) and
// returns their number; 0 where the CPU lacks the instructions.
#pragma once

#include "algorithms/augmentation/byte_ops.h"

namespace composer::bytes {

int64_t stretch_first(const Stretch& by, uint8_t* values, int64_t n);
int64_t blend_first(const Blend& by, const uint8_t* others, uint8_t* values, int64_t n);
int64_t blend_first(const Blend& by, const float* others, uint8_t* values, int64_t n);
int64_t blend_first_greys(const Blend& by, uint8_t* pixels, int64_t n);

/// Adds the greys of the first pixels to `sum`.
int64_t sum_first_greys(const uint8_t* pixels, int64_t n, int64_t& sum);

}  // namespace composer::bytes
