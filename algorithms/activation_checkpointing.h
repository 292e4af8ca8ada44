// activation_checkpointing: keeps of chosen blocks only their inputs, and computes the rest again
// in the backward pass: less memory for more time (Chen et al. 2016, arXiv:1604.06174).
#pragma once

#include <string>
#include <vector>

#include "base/params/params.h"
#include "composer/loop/algorithm.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/layer.h"

namespace composer {

class ActivationCheckpointing : public Algorithm {
 public:
  struct Params {
    std::vector<std::string> layers{};
    int64_t every = 1;

    void fields(auto&& f) {
      f("layers", layers,
        "patterns of the blocks' names, for instance layer1.*; empty: every residual block");
      f("every", every, "of these blocks each so many-th is computed again", at_least(1));
    }
  };

  explicit ActivationCheckpointing(Params params) : params_(std::move(params)) {}
  static Compatibility compatibility();

  /// So that it finds the blocks that surgery put in place.
  Order order(Event) const override { return Order::last; }

  void init(State& state) override;
  std::vector<std::string> report() const override;
  std::string prevents_graph_capture() const override {
    return "sets LibTorch's generators back in each step";
  }
  std::string prevents_sharding() const override { return {}; }

 private:
  Params params_;
  std::vector<std::string> blocks_;
};

/// Has the blocks under `model` that the parameters choose computed again in the backward pass;
/// returns their paths. Gradients stay what they were, and running statistics take each batch up
/// once. Blocks within a chosen one are part of it. Throws UserError when a pattern fits no block,
/// or nothing is chosen.
std::vector<std::string> apply_activation_checkpointing(
    Block& model, const ActivationCheckpointing::Params& params);

}  // namespace composer
