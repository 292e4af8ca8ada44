// alternating_flip: mirrors each image in every second epoch instead of at random, so that two
// epochs in a row always show both sides of it (Jordan 2024, arXiv:2404.00498).
#pragma once

#include <string>

#include "composer/loop/algorithm.h"
#include "composer/recipe/compatibility.h"

namespace composer {

/// Whether the image is mirrored in the epoch: in exactly one of any two in a row; which one, the
/// seed decides for each image.
bool alternating_flip(const SampleKey& place);

/// Exchanges left and right, in place.
void mirror(const MutableImage& image);

/// Done by the loader, as only there an image is known by its number. In place of the set's own
/// random mirroring, which it undoes where that went against the image's turn.
class AlternatingFlip : public Algorithm {
 public:
  static Compatibility compatibility();

  std::string prevents_graph_capture() const override { return {}; }
  std::string prevents_sharding() const override { return {}; }
  SampleTransform sample_transform(const State& state) override;
};

}  // namespace composer
