// What the loop needs of a network.
#pragma once

#include <string>
#include <vector>

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

  /// How many pixels of the image lie, along an axis, between two places of the last feature map; 1
  /// where that is not known. Smaller images are warned of.
  virtual int64_t stride() const { return 1; }

  /// Parameters whose names fit a pattern (composer/name_pattern.h) get no gradient. Layers that
  /// are frozen whole keep their running statistics too: they stay in evaluation mode. Returns how
  /// many parameters there are now without gradient. UserError for a pattern that fits none.
  int64_t freeze(const std::vector<std::string>& patterns);
  void train(bool on = true) override;

 private:
  std::vector<torch::nn::Module*> frozen_;  ///< layers of this network with running statistics
};

}  // namespace composer
