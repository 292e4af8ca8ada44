// Losses on logits [N, C] that understand every part of a Target.
#pragma once

#include "nn/network/batch.h"

namespace composer {

/// The mean over samples, a scalar, or the loss of each, [N].
enum class Over { batch, sample };

/// -sum_c t_c log softmax(logits)_c. Class indices need no dense target, nor does a second label or
/// smoothing.
at::Tensor soft_cross_entropy(const at::Tensor& logits, const Target& target,
                              Over over = Over::batch);

/// Binary cross-entropy with logits against the dense target, summed over classes.
at::Tensor binary_cross_entropy_with_logits(const at::Tensor& logits, const Target& target,
                                            Over over = Over::batch);

}  // namespace composer
