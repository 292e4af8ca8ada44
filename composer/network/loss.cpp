#include "composer/network/loss.h"

#include <ATen/core/Reduction.h>

namespace composer {

at::Tensor soft_cross_entropy(const at::Tensor& logits, const Target& target) {
  const auto scores = logits.to(at::kFloat);
  if (!target.other_classes.defined())
    return at::cross_entropy_loss(scores, target.classes, {}, at::Reduction::Mean, -100,
                                  target.smoothing);

  const auto log_probabilities = scores.log_softmax(1);
  const auto loss_of = [&](const at::Tensor& classes) {
    return at::nll_loss(log_probabilities, classes, {}, at::Reduction::None);
  };
  const auto mixed =
      loss_of(target.classes).lerp(loss_of(target.other_classes), target.other_weight).mean();
  if (target.smoothing == 0) return mixed;
  return mixed * (1 - target.smoothing) - log_probabilities.mean() * target.smoothing;
}

at::Tensor binary_cross_entropy_with_logits(const at::Tensor& logits, const Target& target) {
  const auto scores = logits.to(at::kFloat);
  return at::binary_cross_entropy_with_logits(scores, target.dense(scores.size(1)), {}, {},
                                              at::Reduction::Sum) /
         scores.size(0);
}

}  // namespace composer
