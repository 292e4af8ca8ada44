// Rows of warped images in vector instructions with fused multiply-add. Each function returns
// false, without having done anything, where the CPU has none or an axis is not fusible.
#pragma once

#include "algorithms/augmentation/warp.h"

namespace composer {

/// offsets: the offsets of the nearest pixels of a row, one per column of the axes.
bool nearest_offsets_fused(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from,
                           int32_t* offsets);

/// Writes n pixels of a row, with three channels, by bilinear sampling.
bool bilinear_row_fused(const WarpAxis& x, const WarpAxis& y, float row, const WarpFrame& from,
                        int64_t n, uint8_t* out);

}  // namespace composer
