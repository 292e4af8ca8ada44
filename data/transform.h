// What happens to an image between the file and the batch: crops, sizes, flips. Every draw depends
// on nothing but (seed, epoch, sample).
#pragma once

#include "composer/loader.h"
#include "composer/random.h"
#include "data/image.h"
#include "data/resize.h"

namespace composer {

struct Transform {
  enum class Kind {
    whole,                ///< the whole image
    pad_and_crop,         ///< train: zeros around, `size` somewhere in it, flip
    random_resized_crop,  ///< train: a random part of random shape, flip
    center_crop,          ///< eval: the middle
  };

  Kind kind = Kind::whole;
  int64_t resize_size = -1;  ///< length that the shorter side gets first; -1 = stays
  ImageSize size;            ///< of the result
  int64_t padding = 4;       ///< of pad_and_crop
};

/// Where the draws for an image come from.
struct Place {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t sample = 0;
};

/// Writes `size` pixels to out; a size other than transform.size resizes the random crop, or what
/// the transform would have given, to that.
void apply(const Transform& transform, const ImageView& image, ImageSize size, const Place& place,
           uint8_t* out);

/// The part of an image that torchvision's RandomResizedCrop takes (scale 0.08..1 of the area,
/// ratio 3/4..4/3).
Box draw_crop(ImageSize image, Random& random);

/// The size after the shorter side became `length`, rounded as torchvision's Resize does.
ImageSize resized(ImageSize image, int64_t length);

}  // namespace composer
