// Parts of an image copied as they are: mirrored, or with a border where they reach past it.
#pragma once

#include <array>
#include <cstdint>

#include "data/pixels/image.h"

namespace composer {

/// What lies around an image.
struct Border {
  bool reflect = false;           ///< the image mirrored at its outermost pixels; else the fill
  std::array<uint8_t, 3> fill{};  ///< RGB; of one channel the first
};

/// Copies the image without gaps between rows, mirrored left-right if wanted.
void copy_pixels(const ImageView& image, bool flip, uint8_t* out);

/// The part `window` of the image, which may reach past the image, mirrored if wanted. out:
/// window.height * window.width * channels bytes.
void copy_window(const ImageView& image, const Box& window, const Border& border, bool flip,
                 uint8_t* out);

}  // namespace composer
