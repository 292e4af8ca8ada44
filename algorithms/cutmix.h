// cutmix: pastes a box of another image into each image and mixes the labels by the box's area,
// which teaches the network to find objects by their parts (Yun et al. 2019, arXiv:1905.04899).
#pragma once

#include <ATen/ATen.h>

#include "algorithms/whole_batch.h"
#include "composer/algorithm.h"
#include "composer/recipe/params.h"

namespace composer {

/// Images [N, C, H, W] with `box` taken from images[partner]. partners: int64 [N].
at::Tensor cutmix(const at::Tensor& images, const at::Tensor& partners, const ImageBox& box);

/// A box that leaves the share `lambda` of the image, less what clipping takes away.
ImageBox cutmix_box(ImageSize image, double lambda, bool uniform_sampling, Random& random);

/// One box for the whole batch. The partner's label weighs what the box, clipped, has of the area.
/// The loss gets both classes and needs no dense target.
class CutMix : public Algorithm {
 public:
  struct Params {
    double alpha = 1.0;
    bool uniform_sampling = false;

    void fields(auto&& f) {
      f("alpha", alpha,
        "both parameters of the Beta distribution of the area that stays; 1 is uniform",
        above(0.0));
      f("uniform_sampling", uniform_sampling,
        "all pixels are equally often in the box, whose centre may lie outside");
    }
  };

  explicit CutMix(Params params) : params_(params) {}

  void after_dataloader(State& state) override;

 private:
  Params params_;
};

}  // namespace composer
