// sam: steps by the gradients at the worst point near the weights instead of those at the weights,
// which leads to flat minima that generalise better (Foret et al. 2020, "Sharpness-aware
// minimization for efficiently improving generalization", arXiv:2010.01412).
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"
#include "nn/distributed/ranks.h"

namespace composer {

/// Replaces the gradients of `parameters` by the gradients at w + rho * g / (|g| + epsilon), where
/// |g| is the L2 norm of all gradients together, without waiting for the device. recompute: clears
/// the gradients and computes them anew. Afterwards parameters and `buffers` have their former
/// values, bit by bit. Parameters without a gradient do not move; no parameter may be listed twice.
/// ranks: ranks that hold the gradients of other parameters, on `device`.
void sam_gradients(const std::vector<at::Tensor>& parameters,
                   const std::vector<at::Tensor>& buffers, double rho, double epsilon,
                   const std::function<void()>& recompute, const Ranks& ranks = {},
                   at::Device device = at::kCPU);

/// Every interval-th batch, counted from the start of training, goes through the network twice. No
/// event fires a second time, and random draws are the same in both passes.
class Sam : public UnrestrictedAlgorithm {
 public:
  struct Params {
    double rho = 0.05;
    double epsilon = 1e-12;
    int64_t interval = 1;

    void fields(auto&& f) {
      f("rho", rho, "how far from the weights the gradients are taken: L2 norm of the distance",
        above(0.0));
      f("epsilon", epsilon, "added to the norm that the gradients are divided by", above(0.0));
      f("interval", interval, "every so many batches one is taken twice; the others cost nothing",
        at_least(1));
    }
  };

  explicit Sam(Params params) : params_(params) {}

  /// First, before algorithms that use the new gradients, such as gradient_clipping.
  Order order(Event) const override { return Order::first; }

  std::string prevents_graph_capture() const override {
    return "computes the gradients of a batch twice, in every interval-th step";
  }
  std::string against_repeated_steps(bool) const override {
    return "its second pass runs after weights have changed, and could not be done again";
  }
  void after_train_batch(State& state) override;

 private:
  Params params_;
};

}  // namespace composer
