// progressive_resizing: trains on small images first and lets them grow, which saves most of the
// arithmetic of the early epochs (Howard 2018, DAWNBench; fast.ai).
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"
#include "base/random.h"
#include "composer/loop/loader.h"

namespace composer {

/// Images [N, C, H, W] -> [N, C, size.height, size.width], strides of `format`.
/// mode "resize": bilinear with antialiasing (a triangle filter as wide as the reduction).
/// mode "crop": one window for the whole batch, its offset drawn from `random`; at most the images'
/// size. Throws UserError for another mode.
at::Tensor resize_batch(const at::Tensor& images, ImageSize size, std::string_view mode,
                        Random random, at::MemoryFormat format = at::MemoryFormat::Contiguous);

class ProgressiveResizing : public UnrestrictedAlgorithm {
 public:
  struct Params {
    std::string mode = "resize";
    double initial_scale = 0.5;
    double finetune_fraction = 0.2;
    double delay_fraction = 0.5;
    int64_t size_increment = 4;
    bool resize_targets = false;
    std::string where = "auto";

    void fields(auto&& f) {
      f("mode", mode, "how images get smaller", one_of("resize", "crop"));
      f("initial_scale", initial_scale, "side of the first images, as a share of the full one",
        in(0.0, 1.0));
      f("finetune_fraction", finetune_fraction,
        "share of training at its end that sees full images", in(0.0, 1.0));
      f("delay_fraction", delay_fraction, "share of training at its start that sees the first size",
        in(0.0, 1.0));
      f("size_increment", size_increment, "widths are multiples of this many pixels", at_least(1));
      f("resize_targets", resize_targets, "false: the target of a classification has no size");
      f("where", where,
        "loader: images are decoded to the size wanted now, which makes loading quicker too; "
        "device: "
        "whole batches get smaller; auto: the loader where it can",
        one_of("auto", "loader", "device"));
    }
    std::string check() const;
  };

  explicit ProgressiveResizing(Params params) : params_(std::move(params)) {}

  /// Early, so that boxes that other algorithms cut or paste are neither scaled nor cropped.
  Order order(Event) const override { return Order::early; }

  /// Share of the full side, in [initial_scale, 1], when the share `elapsed` of training is done.
  static double scale(double elapsed, const Params& params);
  /// The full width times `scale`, rounded to a multiple of size_increment (half to even); the
  /// height in proportion, rounded down. Never empty nor larger than `full`; `full` itself for a
  /// scale of 1.
  static ImageSize size(ImageSize full, double scale, const Params& params);

  /// The size of each batch, for `where: loader` and for auto, except if mode is crop or the run's
  /// length is in seconds. Throws UserError if `where: loader` is not possible.
  SizePlan image_sizes(const State& state) override;
  /// Resizes images that the loader did not resize. Requires state.image_size.
  void after_dataloader(State& state) override;
  /// The scale factor, and the height and width that belong to state.image_size.
  std::vector<std::pair<std::string, double>> planned(const State& state) const override;

 private:
  Params params_;
};

}  // namespace composer
