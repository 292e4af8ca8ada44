// What the loop needs of a network.
#pragma once

#include "composer/batch.h"
#include "composer/network/layer.h"
#include "composer/network/loss.h"

namespace composer {

/// A classifier. Parameter names start at the model itself: "conv1.weight".
class Model : public Block {
 public:
  /// Normalised images [N, C, H, W] -> logits [N, num_classes].
  at::Tensor forward(const at::Tensor& input) override = 0;

  /// Default: soft_cross_entropy.
  virtual at::Tensor loss(const at::Tensor& logits, const Target& target, Over over = Over::batch);

  virtual int64_t num_classes() const = 0;
};

}  // namespace composer
