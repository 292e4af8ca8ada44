#include "nn/network/loss.h"

#include <ATen/core/Reduction.h>

namespace composer {

at::Tensor soft_cross_entropy(const at::Tensor& logits, const Target& target, Over over) {
  const auto scores = in_float32(logits);
  if (!target.other_classes.defined())
    return at::cross_entropy_loss(scores, target.classes, {},
                                  over == Over::batch ? at::Reduction::Mean : at::Reduction::None,
                                  -100, target.smoothing);

  const auto log_probabilities = scores.log_softmax(1);
  const auto loss_of = [&](const at::Tensor& classes) {
    return at::nll_loss(log_probabilities, classes, {}, at::Reduction::None);
  };
  auto mixed =
      loss_of(target.classes).lerp(loss_of(target.other_classes), target.other_weight.to(scores));
  if (over == Over::batch) mixed = mixed.mean();
  if (target.smoothing == 0) return mixed;
  const auto spread = over == Over::batch ? log_probabilities.mean() : log_probabilities.mean(1);
  return mixed * (1 - target.smoothing) - spread * target.smoothing;
}

at::Tensor binary_cross_entropy_with_logits(const at::Tensor& logits, const Target& target,
                                            Over over) {
  const auto scores = in_float32(logits);
  const auto dense = target.dense(scores.size(1));
  if (over == Over::sample)
    return at::binary_cross_entropy_with_logits(scores, dense, {}, {}, at::Reduction::None).sum(1);
  return at::binary_cross_entropy_with_logits(scores, dense, {}, {}, at::Reduction::Sum) /
         scores.size(0);
}

}  // namespace composer
