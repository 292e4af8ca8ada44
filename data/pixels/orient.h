// EXIF orientations: the turn or mirroring that makes a stored image upright. 1 = none, 2 =
// mirrored left to right, 3 = by 180 degrees, 4 = mirrored top to bottom, 5 = transposed,
// 6 = by 90 degrees clockwise, 7 = transposed along the other diagonal, 8 = by 90 degrees
// counterclockwise. Another number counts as 1.
#pragma once

#include "data/pixels/image.h"

namespace composer {

/// Whether height and width of the upright and the stored image are swapped.
inline bool turned(int orientation) { return orientation >= 5 && orientation <= 8; }

/// Whether the stored image's rows must be mirrored, the last becoming the first; they are mirrored
/// before height and width are exchanged.
inline bool bottom_up(int orientation) {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}
/// Whether the stored image's columns must be mirrored, likewise before the exchange.
inline bool right_to_left(int orientation) {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

/// The part of the stored image of which `upright`, a part of the upright image, is made.
/// stored: the size of the stored image.
Box stored_box(const Box& upright, ImageSize stored, int orientation);

/// Writes the stored pixels upright into `out`, which must not own them.
void orient(const ImageView& stored, int orientation, Image& out);

/// Turns the image upright in place.
void apply_orientation(Image& image, int orientation);

}  // namespace composer
