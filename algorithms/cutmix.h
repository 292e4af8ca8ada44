// cutmix: pastes a box of another image into each image and mixes the labels by the box's area,
// which teaches the network to find objects by their parts (Yun et al. 2019, arXiv:1905.04899).
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "algorithms/parts/whole_batch.h"
#include "base/params/params.h"

namespace composer {

/// Images [N, C, H, W] with `box` taken from images[partner]. partners: int64 [N].
at::Tensor cutmix(const at::Tensor& images, const at::Tensor& partners, const Box& box);

/// A random box of the share 1 - lambda of the image before it is clipped to the image.
Box cutmix_box(ImageSize image, double lambda, bool uniform_sampling, Random& random);

/// A box of `length` times the image's height and width, rounded down but at least one pixel, at a
/// random position within the image.
Box fixed_box(ImageSize image, double length, Random& random);

/// Uses one box for the whole batch. The weight of the partner's label is the clipped box's share
/// of the area. The loss gets both classes, without a dense target.
class CutMix : public UnrestrictedAlgorithm {
 public:
  struct Params {
    double alpha = 1.0;
    bool uniform_sampling = false;
    std::optional<double> length = std::nullopt;
    Time start{0, TimeUnit::duration};
    std::optional<int64_t> num_classes = std::nullopt;

    void fields(auto&& f) {
      f("alpha", alpha,
        "both parameters of the Beta distribution of the area that stays; 1 is uniform",
        above(0.0));
      f("uniform_sampling", uniform_sampling,
        "all pixels are equally often in the box, whose centre may lie outside");
      f("length", length,
        "side of every box, as a share of the image's; within the image. none: by alpha", above(0),
        in(0.0, 1.0));
      f("start", start, "the batch from which images are mixed", at_least(0));
      f("num_classes", num_classes, "for old recipes: has no effect, as labels stay indices",
        at_least(1));
    }
    std::string check() const;
  };

  explicit CutMix(Params params);

  void fit_start(State& state) override;
  void after_dataloader(State& state) override;

 private:
  Params params_;
};

}  // namespace composer
