// trivialaugment: changes each image by one operation of any strength; nothing to tune (Mueller and
// Hutter 2021, arXiv:2103.10158, "wide").
#pragma once

#include <string>

#include "algorithms/augmentation/augment_batch.h"
#include "base/params/params.h"

namespace composer {

class TrivialAugment : public DrawnPerImage<Steps> {
 public:
  struct Params {
    int64_t num_magnitude_bins = 31;
    std::string where = "device";

    void fields(auto&& f) {
      f("num_magnitude_bins", num_magnitude_bins, "strengths to draw from, the same for all",
        at_least(2));
      f("where", where, where_doc, one_of("device", "loader"));
    }
  };

  explicit TrivialAugment(const Params& params);
};

/// A random draw for an image of any size: one operation.
Steps draw_trivialaugment(Random& random, const TrivialAugment::Params& params);

}  // namespace composer
