// label_smoothing: takes a share of each label's weight and spreads it over all classes, which
// keeps networks from growing overconfident (Szegedy et al. 2016, arXiv:1512.00567).
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "base/params/params.h"
#include "composer/loop/algorithm.h"

namespace composer {

/// target * (1 - smoothing) + smoothing / C, float32 [N, C, ...], C = logits.size(1).
/// target: class indices [N, ...] (a negative one counts as a row of zeros), or probabilities of
/// the shape of logits. Throws UserError when its shape is neither.
at::Tensor smooth_labels(const at::Tensor& logits, const at::Tensor& target, double smoothing);

/// Smooths the targets for the loss only; metrics see the original ones. Composes with what other
/// methods did to them.
class LabelSmoothing : public Algorithm {
 public:
  struct Params {
    double smoothing = 0.1;

    void fields(auto&& f) {
      f("smoothing", smoothing, "share of each label's weight that is spread over all classes",
        in(0.0, 1.0));
    }
  };

  explicit LabelSmoothing(Params params) : params_(params) {}

  std::string prevents_graph_capture() const override { return {}; }
  std::string prevents_sharding() const override { return {}; }
  void fit_start(State& state) override;
  void before_loss(State& state) override;
  void after_loss(State& state) override;

 private:
  Params params_;
  double original_ = 0;
};

}  // namespace composer
