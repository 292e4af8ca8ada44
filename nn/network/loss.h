// Losses of logits [N, C] for every kind of Target.
#pragma once

#include "nn/network/batch.h"

namespace composer {

/// The type for losses and metrics: float32, or float64 where `outputs` are float64.
inline at::Tensor in_float32(const at::Tensor& outputs) {
  return outputs.scalar_type() == at::kDouble ? outputs : outputs.to(at::kFloat);
}

/// batch: the mean over samples, a scalar. sample: the loss of each, [N].
enum class Over { batch, sample };

/// -sum_c t_c log softmax(logits)_c. Needs no dense target, not even for a second label or
/// smoothing.
at::Tensor soft_cross_entropy(const at::Tensor& logits, const Target& target,
                              Over over = Over::batch);

/// Binary cross-entropy with logits against the dense target, summed over classes.
at::Tensor binary_cross_entropy_with_logits(const at::Tensor& logits, const Target& target,
                                            Over over = Over::batch);

}  // namespace composer
