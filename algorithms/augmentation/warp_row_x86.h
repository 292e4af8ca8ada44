// Rows of warped images in AVX2. Each function returns false, without having done anything, where
// the CPU lacks the instructions or an axis is not fusible.
#pragma once

#include "algorithms/augmentation/warp_row.h"

namespace composer {

/// offsets: of the pixels nearest to what the row reads, as many as the axes have columns.
bool nearest_offsets_avx2(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from,
                          int32_t* offsets);

/// Of three channels.
bool bilinear_row_avx2(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from,
                       int64_t n, uint8_t* out);

}  // namespace composer
