// gradual_unfreezing: for fine-tuning: trains the last layer first, and block after block towards
// the input with it, so that loaded weights are not disturbed while the new layer is still random
// (Howard and Ruder 2018, "Universal language model fine-tuning for text classification",
// arXiv:1801.06146).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/model.h"

namespace composer {

/// The trained parameters of `model` from input to output, one list per layer as
/// parameters_by_depth() counts layers.
std::vector<std::vector<at::Tensor>> trained_layers(Model& model);

/// Trains only the last `count` of the `layers` of `model`. Batch norms of blocks that are not
/// trained keep their statistics.
void unfreeze_last(Model& model, const std::vector<std::vector<at::Tensor>>& layers, int64_t count);

/// The trained layers depend on the time alone.
class GradualUnfreezing : public UnrestrictedAlgorithm {
 public:
  struct Params {
    Time start{0.1, TimeUnit::duration};
    Time until{0.5, TimeUnit::duration};

    void fields(auto&& f) {
      f("start", start, "when the block before the last layer thaws; in dur, ep, ba or sp",
        at_least(0));
      f("until", until, "when the first layer thaws; the blocks between follow evenly",
        at_least(0));
    }
    std::string check() const;
  };

  static Compatibility compatibility();

  explicit GradualUnfreezing(const Params& params) : params_(params) {}

  void fit_start(State& state) override;
  void batch_start(State& state) override;
  std::vector<std::pair<std::string, double>> planned(const State& state) const override;

  /// The number of trained layers, at least 1 of `layers`, when the share `elapsed` of training is
  /// done. start <= until: shares of training.
  static int64_t trained(double elapsed, int64_t layers, double start, double until);

 private:
  using Layers = std::vector<std::vector<at::Tensor>>;

  /// The trained layers of the model at the start of the run; parameters that were frozen then stay
  /// frozen.
  const Layers& layers(const State& state) const;
  int64_t trained(const State& state) const;

  Params params_;
  mutable Layers layers_;
  int64_t trained_ = 0;
};

}  // namespace composer
