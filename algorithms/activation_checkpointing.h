// activation_checkpointing: keeps only the inputs of chosen blocks and computes their activations
// again in the backward pass: less memory for more time (Chen et al. 2016, arXiv:1604.06174).
#pragma once

#include <string>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"
#include "composer/recipe/compatibility.h"
#include "nn/network/layer.h"

namespace composer {

class ActivationCheckpointing : public UnrestrictedAlgorithm {
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

  /// Last, to find the blocks that surgery put into the model.
  Order order(Event) const override { return Order::last; }

  void init(State& state) override;
  std::vector<std::string> report() const override;
  std::string prevents_graph_capture() const override {
    return "sets LibTorch's generators back in each step";
  }

 private:
  Params params_;
  std::vector<std::string> blocks_;
};

/// Makes the chosen blocks under `model` compute again in the backward pass; returns their paths.
/// Gradients do not change, and running statistics take each batch into account once. A block
/// within a chosen block is part of it. Throws UserError if a pattern fits no block or nothing is
/// chosen.
std::vector<std::string> apply_activation_checkpointing(
    Block& model, const ActivationCheckpointing::Params& params);

}  // namespace composer
