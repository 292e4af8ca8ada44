// out[i] = in[i] * scale[i] + shift[i], rounded twice.
#pragma once

#include <cstdint>

namespace composer {

void scale_to_float(const uint8_t* in, int64_t n, const float* scale, const float* shift,
                    float* out);

/// The same, rounded a third time, to bfloat16 (halves to even).
void scale_to_bf16(const uint8_t* in, int64_t n, const float* scale, const float* shift,
                   uint16_t* out);

}  // namespace composer
