// Changing the size of 8-bit images: the antialiased bilinear filter that torchvision's transforms
// get from Pillow.
#pragma once

#include "data/copy.h"
#include "data/image.h"

namespace composer {

/// Equal bit by bit to Pillow 13's image.resize(size, BILINEAR, box) and then the part `window` of
/// the result, of which only that part is computed; `flip` mirrors the part left-right. box lies in
/// the image, window in size. As in Pillow, pixels just outside the box weigh in at its edges; crop
/// the view first to keep them out. out: window.height * window.width * channels bytes.
void resize_bilinear(const ImageView& image, const Box& box, ImageSize size, const Box& window,
                     bool flip, uint8_t* out);

/// The whole image to `size`.
void resize_bilinear(const ImageView& image, ImageSize size, bool flip, uint8_t* out);

}  // namespace composer
