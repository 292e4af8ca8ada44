// Copies parts of an image, mirrored if wanted, with a border around the image.
#pragma once

#include <array>
#include <cstdint>

#include "data/pixels/image.h"

namespace composer {

/// The border around an image.
struct Border {
  bool reflect = false;  ///< true: the image mirrored at its outermost pixels; false: the fill
  std::array<uint8_t, 3> fill{};  ///< RGB; images with one channel use the first value
};

/// Copies the image without gaps between rows, mirrored left-right if wanted.
void copy_pixels(const ImageView& image, bool flip, uint8_t* out);

/// The part `window` of the image, which may reach past the image, mirrored if wanted. out:
/// window.height * window.width * channels bytes.
void copy_window(const ImageView& image, const Box& window, const Border& border, bool flip,
                 uint8_t* out);

}  // namespace composer
