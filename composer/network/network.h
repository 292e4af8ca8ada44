// A model under a run's precision: the one place where forward passes happen.
#pragma once

#include "composer/network/model.h"
#include "composer/optimization/precision.h"

namespace composer {

class Network {
 public:
  /// Refers to `model`, which must outlive it.
  Network(Model& model, Precision precision = Precision::fp32, at::Device device = at::kCPU)
      : model_(model), precision_(precision), device_(device) {}

  /// Normalised images [N, C, H, W] -> logits [N, num_classes]. RunError, with the shape, when a
  /// layer fails on them.
  at::Tensor forward(const at::Tensor& images) const;

  at::Tensor loss(const at::Tensor& logits, const Target& target, Over over = Over::batch) const;

  Model& model() const { return model_; }

 private:
  Model& model_;
  Precision precision_;
  at::Device device_;
};

}  // namespace composer
