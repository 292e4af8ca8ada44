// augmix: averages each image with randomly changed versions of itself, for networks that bear
// corrupted images (Hendrycks et al. 2019, arXiv:1912.02781). Without the paper's consistency loss.
#pragma once

#include <string>

#include "algorithms/augmentation/augment_batch.h"
#include "algorithms/augmentation/primitives.h"
#include "base/params/params.h"

namespace composer {

class AugMix : public DrawnPerImage<AugMixDraw> {
 public:
  struct Params {
    int64_t severity = 3;
    int64_t depth = -1;
    int64_t width = 3;
    double alpha = 1.0;
    std::string augmentation_set = "all";
    std::string where = "device";

    void fields(auto&& f) {
      f("severity", severity, "largest strength of an operation; strengths are drawn up to it",
        in(0, 10));
      f("depth", depth, "operations a chain; -1: one to three, drawn for each chain",
        in(1, 100).or_exactly(-1));
      f("width", width, "chains of operations an image", in(1, 100));
      f("alpha", alpha,
        "of the Beta distribution of the share of the chains in the result, and of the Dirichlet "
        "distribution of their weights",
        above(0));
      f("augmentation_set", augmentation_set, augmentation_set_doc,
        one_of("all", "safe", "original"));
      f("where", where, where_doc, one_of("device", "loader"));
    }
  };

  explicit AugMix(const Params& params);
};

/// A random draw for an image of this size.
AugMixDraw draw_augmix(Random& random, ImageSize size, const AugMix::Params& params);

}  // namespace composer
