// colout: drops a share of the rows and columns of the images, which makes them smaller and steps
// quicker, and regularises (MosaicML Composer's own method; no paper).
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"
#include "base/random.h"

namespace composer {

/// Images [N, C, H, W] without random rows and columns, the same ones for all:
/// [N, C, floor((1 - p_row) * H), floor((1 - p_col) * W)], each at least 1. The order of the lines
/// and the memory format stay.
at::Tensor colout(const at::Tensor& images, double p_row, double p_col, Random random);

class ColOut : public UnrestrictedAlgorithm {
 public:
  struct Params {
    double p_row = 0.15;
    double p_col = 0.15;
    bool batch = true;
    std::string resize_target = "auto";

    void fields(auto&& f) {
      f("p_row", p_row, "share of rows to drop", in(0.0, 1.0));
      f("p_col", p_col, "share of columns to drop", in(0.0, 1.0));
      f("batch", batch, "for old recipes: must be true, as a batch loses the same lines");
      f("resize_target", resize_target,
        "for old recipes: has no effect, as targets are classes, not images",
        one_of("auto", "true", "false"));
    }
    std::string check() const {
      return batch ? "" : "batch: must be true: all images of a batch lose the same lines\n";
    }
  };

  explicit ColOut(Params params) : params_(params) {}

  void after_dataloader(State& state) override;

 private:
  Params params_;
};

}  // namespace composer
