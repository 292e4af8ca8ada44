// mixup: trains on blends of two images with their labels in the same shares, which makes the
// network behave linearly between examples (Zhang et al. 2018, arXiv:1710.09412).
#pragma once

#include <ATen/ATen.h>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"
#include "base/random.h"
#include "composer/recipe/compatibility.h"

namespace composer {

/// (1 - weight) * image + weight * images[partner] for every image of [N, C, H, W].
/// partners: int64 [N]; weight: float32 [N].
at::Tensor mixup(const at::Tensor& images, const at::Tensor& partners, const at::Tensor& weight);

/// The weights of the partners, float32 [n] in [0, 0.5]: min(l, 1 - l), where l is Beta(alpha,
/// alpha) distributed; one for all images or, with `per_sample`, one per image.
at::Tensor mixup_weight(int64_t n, double alpha, bool per_sample, Random& random);

/// Blends the whole batch before it is split into microbatches. The loss gets both classes,
/// without a dense target.
class Mixup : public UnrestrictedAlgorithm {
 public:
  struct Params {
    double alpha = 0.2;
    bool per_sample = false;
    bool interpolate_loss = false;

    void fields(auto&& f) {
      f("alpha", alpha, "both parameters of the Beta distribution of weights; larger mixes more",
        above(0.0));
      f("per_sample", per_sample, "a weight for each image, instead of one for the batch");
      f("interpolate_loss", interpolate_loss,
        "for old recipes: has no effect, as the loss is interpolated either way");
    }
  };

  explicit Mixup(Params params);

  static Compatibility compatibility() {
    return {.excludes = {{"cutmix", "both give each image a second label"}}};
  }

  void after_dataloader(State& state) override;

 private:
  Params params_;
};

}  // namespace composer
