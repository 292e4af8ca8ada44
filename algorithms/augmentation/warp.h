// Shears, rotations and shifts of an image, by the arithmetic of torchvision's functional.affine
// and functional.rotate on tensors.
#pragma once

#include "algorithms/augmentation/image_op.h"
#include "base/loading/image_size.h"

namespace composer {

/// Where the pixels of the result are read, in pixels from the image's centre, y downwards:
/// (x, y) reads at (xx * x + xy * y + x0, yx * x + yy * y + y0).
struct Affine {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;
};

/// Of shear_x, shear_y, translate_x, translate_y and rotate; of others the identity.
Affine affine_of(ImageOp op, double magnitude, ImageSize size);

/// In place; what is read outside the image is 0. Interpolation::bilinear rounds to the nearest
/// grey level.
void warp(const Affine& affine, Interpolation interpolation, const MutableImage& image);

/// Moves the image by whole pixels, in place; the rest is 0.
void shift(int64_t right, int64_t down, const MutableImage& image);

}  // namespace composer
