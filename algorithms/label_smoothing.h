// label_smoothing: takes a share of each label's weight and spreads it over all classes, which
// keeps networks from growing overconfident (Szegedy et al. 2016, arXiv:1512.00567).
#pragma once

#include <ATen/ATen.h>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"

namespace composer {

/// target * (1 - smoothing) + smoothing / C, float32 [N, C, ...], C = logits.size(1).
/// target: class indices [N, ...] (a negative one counts as a row of zeros), or probabilities of
/// the shape of logits. Throws UserError when its shape is neither.
at::Tensor smooth_labels(const at::Tensor& logits, const at::Tensor& target, double smoothing);

/// Smooths the targets for the loss only; metrics use the original targets. Combines with the
/// smoothing of other methods.
class LabelSmoothing : public UnrestrictedAlgorithm {
 public:
  struct Params {
    double smoothing = 0.1;

    void fields(auto&& f) {
      f("smoothing", smoothing, "share of each label's weight that is spread over all classes",
        in(0.0, 1.0));
    }
  };

  explicit LabelSmoothing(Params params) : params_(params) {}

  void fit_start(State& state) override;
  void before_loss(State& state) override;
  void after_loss(State& state) override;

 private:
  Params params_;
  double original_ = 0;
};

}  // namespace composer
