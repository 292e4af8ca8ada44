// layer_freezing: stops training the first layers, more and more of them towards the end, which
// saves their share of the backward pass (Brock et al. 2017, "FreezeOut: accelerate training by
// progressively freezing layers", arXiv:1706.04983).
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"

namespace composer {

/// The modules under `model`, itself included, that have parameters of their own, in order of
/// registration, which is the order of the forward pass.
std::vector<torch::nn::Module*> layers_with_parameters(torch::nn::Module& model);

/// Freezes the first `count` of layers_with_parameters(): their parameters no longer require or
/// have gradients, so that optimizers skip them.
void freeze_layers(torch::nn::Module& model, int64_t count);

/// Freezes more layers at the end of each epoch. The frozen layers depend on the time alone.
class LayerFreezing : public UnrestrictedAlgorithm {
 public:
  struct Params {
    double freeze_start = 0.5;
    double freeze_level = 1.0;

    void fields(auto&& f) {
      f("freeze_start", freeze_start, "share of training after which the first layers freeze",
        in(0.0, 1.0));
      f("freeze_level", freeze_level,
        "share of the layers that is frozen at the end of training; the last one never is",
        above(0.0), in(0.0, 1.0));
    }
    std::string check() const {
      return freeze_start < 1 ? "" : "freeze_start: must be below 1: no layer would ever freeze\n";
    }
  };

  explicit LayerFreezing(Params params) : params_(params) {}

  void fit_start(State& state) override;
  void epoch_end(State& state) override;
  std::vector<std::pair<std::string, double>> planned(const State& state) const override;

  /// The number of frozen layers, of `layers`, when the share `elapsed` of training is done.
  static int64_t frozen(double elapsed, int64_t layers, const Params& params);

 private:
  int64_t frozen(const State& state) const;

  Params params_;
};

}  // namespace composer
