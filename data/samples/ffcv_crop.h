// The part of an image that FFCV's centre-crop decoder takes.
#pragma once

#include "data/pixels/image.h"

namespace composer {

/// A square of `ratio` (above 0, at most 1) times the shorter side, rounded down but at least one
/// pixel, in the middle, rounded up and left: FFCV's CenterCropRGBImageDecoder, which then resizes
/// it by area. Its random crop follows the same law as torchvision's (draw_crop).
Box ffcv_center_crop(ImageSize image, double ratio);

}  // namespace composer
