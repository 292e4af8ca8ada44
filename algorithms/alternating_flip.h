// alternating_flip: mirrors each image in every second epoch instead of at random, so that two
// epochs in a row always show both sides of it (Jordan 2024, arXiv:2404.00498).
#pragma once

#include "algorithms/parts/unrestricted_algorithm.h"
#include "composer/recipe/compatibility.h"

namespace composer {

/// Whether the image is mirrored in the epoch: in exactly one of two consecutive epochs; the seed
/// decides for each image in which one.
bool alternating_flip(const SampleKey& key);

/// Mirrors the image left to right, in place.
void mirror(const MutableImage& image);

/// Runs in the loader, where the index of each image is known. Replaces the data set's random
/// mirroring: it mirrors the image again where the data set decided otherwise.
class AlternatingFlip : public UnrestrictedAlgorithm {
 public:
  static Compatibility compatibility();

  SampleTransform sample_transform(const State& state) override;
};

}  // namespace composer
