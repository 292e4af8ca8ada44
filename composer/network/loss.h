// Losses on logits [N, C] that understand every part of a Target. Each returns the mean over
// samples, a scalar.
#pragma once

#include "composer/batch.h"

namespace composer {

/// -sum_c t_c log softmax(logits)_c. Class indices need no dense target, nor does a second label or
/// smoothing.
at::Tensor soft_cross_entropy(const at::Tensor& logits, const Target& target);

/// Binary cross-entropy with logits against the dense target, summed over classes, divided by N.
at::Tensor binary_cross_entropy_with_logits(const at::Tensor& logits, const Target& target);

}  // namespace composer
