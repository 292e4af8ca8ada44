// autoaugment: changes each image by one of 25 pairs of operations that a search found for a data
// set (Cubuk et al. 2018, arXiv:1805.09501).
#pragma once

#include <array>
#include <string>

#include "algorithms/augmentation/augment_batch.h"
#include "base/params/params.h"

namespace composer {

class AutoAugment : public DrawnPerImage<Steps> {
 public:
  struct Params {
    std::string policy = "imagenet";
    std::string where = "device";

    void fields(auto&& f) {
      f("policy", policy, "the data set for which the operations were searched",
        one_of("imagenet", "cifar10", "svhn"));
      f("where", where, where_doc, one_of("device", "loader"));
    }
  };

  /// An operation, applied with `probability`. level: strength, 0 to 9.
  struct Part {
    ImageOp op = ImageOp::identity;
    double probability = 0;
    int64_t level = 0;
  };
  using Pair = std::array<Part, 2>;
  using Policy = std::array<Pair, 25>;

  /// name: "imagenet", "cifar10" or "svhn".
  static const Policy& policy(const std::string& name);

  /// The magnitude as in ImageStep, without its sign. Translations are relative to the size.
  static double magnitude(ImageOp op, int64_t level, ImageSize size);

  explicit AutoAugment(const Params& params);
};

/// A random draw for an image of this size: none, one or both operations of a pair.
Steps draw_autoaugment(Random& random, ImageSize size, const AutoAugment::Params& params);

}  // namespace composer
