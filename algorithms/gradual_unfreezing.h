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

#include "base/params/params.h"
#include "composer/loop/algorithm.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/model.h"

namespace composer {

/// The parameters of `model` that are trained, from its input to its output; those in one list are
/// one layer, as parameters_by_depth() counts them.
std::vector<std::vector<at::Tensor>> trained_layers(Model& model);

/// Trains the last `count` of `layers`, which are of `model`, and none before them. The batch norms
/// of blocks that are not trained keep their statistics.
void unfreeze_last(Model& model, const std::vector<std::vector<at::Tensor>>& layers, int64_t count);

/// What is trained follows from the time alone.
class GradualUnfreezing : public Algorithm {
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

  std::string prevents_graph_capture() const override { return {}; }
  std::string prevents_sharding() const override { return {}; }
  void fit_start(State& state) override;
  void batch_start(State& state) override;
  std::vector<std::pair<std::string, double>> planned(const State& state) const override;

  /// How many of `layers` layers, 1 or more, are trained when the share `elapsed` of training is
  /// done. start, until: shares of training, until not before start.
  static int64_t trained(double elapsed, int64_t layers, double start, double until);

 private:
  using Layers = std::vector<std::vector<at::Tensor>>;

  /// Of the run's model, as the run began with it: what was frozen then stays so.
  const Layers& layers(const State& state) const;
  int64_t trained(const State& state) const;

  Params params_;
  mutable Layers layers_;
  int64_t trained_ = 0;
};

}  // namespace composer
