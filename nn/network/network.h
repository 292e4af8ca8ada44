// A model with a run's precision: all forward passes go through it.
#pragma once

#include "nn/distributed/ranks.h"
#include "nn/network/model.h"
#include "nn/network/precision.h"

namespace composer {

class ShardedParameters;

class Network {
 public:
  /// Refers to `model`, and to `weights` where the model's weights are sharded; both must outlive
  /// it. rows: the ranks that have rows of the same images (Ranks::of_rows()); not together with
  /// `weights`.
  Network(Model& model, Precision precision = Precision::fp32, at::Device device = at::kCPU,
          ShardedParameters* weights = nullptr, Ranks rows = {})
      : model_(model),
        precision_(precision),
        device_(device),
        weights_(weights),
        rows_(std::move(rows)) {}

  /// Normalised images [N, C, H, W] -> logits [N, num_classes]. With spatial parallelism every rank
  /// of an image passes whole images and gets the same logits. RunError with the model's title and
  /// the shape when a layer fails.
  at::Tensor forward(const at::Tensor& images) const;

  at::Tensor loss(const at::Tensor& logits, const Target& target, Over over = Over::batch) const;

  Model& model() const { return model_; }

 private:
  Model& model_;
  Precision precision_;
  at::Device device_;
  ShardedParameters* weights_;
  Ranks rows_;
};

}  // namespace composer
