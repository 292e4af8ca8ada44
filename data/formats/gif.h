// GIF files in memory, by giflib.
#pragma once

#include <cstdint>
#include <span>

#include "data/pixels/image.h"

namespace composer {

/// Decodes the first frame to RGB; what it leaves free of the screen has its transparent colour, or
/// colour 0, as Pillow has it. Throws RunError with the reason.
void decode_gif(std::span<const uint8_t> bytes, Image& out);

}  // namespace composer
