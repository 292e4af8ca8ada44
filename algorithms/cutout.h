// cutout: blanks random squares of the images, so that the network learns to look at all of an
// object (DeVries and Taylor 2017, arXiv:1708.04552).
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "algorithms/parts/whole_batch.h"
#include "base/params/params.h"

namespace composer {

/// Images [N, C, H, W] with zeros in the boxes.
at::Tensor cutout(const at::Tensor& images, const std::vector<Box>& holes);

/// Uses the same squares for all images of a batch and new squares for each batch. Zero is the mean
/// colour, because images are normalised.
class Cutout : public UnrestrictedAlgorithm {
 public:
  struct Params {
    int64_t num_holes = 1;
    double length = 0.5;
    bool uniform_sampling = false;

    void fields(auto&& f) {
      f("num_holes", num_holes, "squares in each image; they may overlap", in(1, 1000));
      f("length", length, "side of a square, as a share of the image's shorter side", above(0.0),
        in(0.0, 1.0));
      f("uniform_sampling", uniform_sampling,
        "all pixels are equally often in a square, whose centre may lie outside");
    }
  };

  explicit Cutout(Params params) : params_(params) {}

  void after_dataloader(State& state) override;

 private:
  Params params_;
};

}  // namespace composer
