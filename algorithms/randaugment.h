// randaugment: changes each image by a few randomly drawn operations (Cubuk et al. 2019,
// arXiv:1909.13719; operations and strengths as in MosaicML Composer).
#pragma once

#include <string>

#include "algorithms/augmentation/augment_batch.h"
#include "algorithms/augmentation/primitives.h"
#include "base/params/params.h"

namespace composer {

class RandAugment : public DrawnPerImage<Steps> {
 public:
  struct Params {
    int64_t severity = 9;
    int64_t depth = 2;
    std::string augmentation_set = "all";
    std::string where = "device";

    void fields(auto&& f) {
      f("severity", severity, "largest strength of an operation; strengths are drawn up to it",
        in(0, 10));
      f("depth", depth, "operations an image", in(1, 100));
      f("augmentation_set", augmentation_set, augmentation_set_doc,
        one_of("all", "safe", "original"));
      f("where", where, where_doc, one_of("device", "loader"));
    }
  };

  explicit RandAugment(const Params& params);
};

/// A random draw for an image of this size: `depth` operations, each from the whole set.
Steps draw_randaugment(Random& random, ImageSize size, const RandAugment::Params& params);

}  // namespace composer
