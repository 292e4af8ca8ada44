// Netpbm's images in memory: PBM, PGM and PPM, as text and as bytes (P1 to P6).
#pragma once

#include <cstdint>
#include <span>

#include "data/pixels/image.h"

namespace composer {

/// Decodes to RGB; samples are scaled from their file's largest value to 255. Throws RunError with
/// the reason.
void decode_pnm(std::span<const uint8_t> bytes, Image& out);

}  // namespace composer
