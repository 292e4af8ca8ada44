// Normalisation of each sample by itself, with PyTorch's parameter names and defaults. Under
// autocast both compute in float32 on every device, as PyTorch does on a GPU. There LibTorch's
// group norm gives NCHW back, whatever it got: with channels_last each one costs two conversions.
#pragma once

#include <cstdint>

#include "nn/network/norm_layer.h"

namespace composer {

/// Over the last dimension, of `features`: weight, bias [features]. Input [..., features] (Ba et
/// al. 2016, arXiv:1607.06450).
class LayerNorm : public NormLayer {
 public:
  explicit LayerNorm(int64_t features, double eps = 1e-5);
  /// Shares the tensors of `other`.
  LayerNorm(const LayerNorm& other) = default;

  std::string describe() const override;

  at::Tensor weight, bias;

 protected:
  at::Tensor normalize(const at::Tensor& input) override;

  int64_t features_;
  double eps_;
};

/// The same over the channels of each pixel, `features` of them. Input [N, features, H, W].
class LayerNorm2d : public LayerNorm {
 public:
  using LayerNorm::LayerNorm;

  std::string describe() const override;

 protected:
  at::Tensor normalize(const at::Tensor& input) override;
};

/// Over groups of channels / groups neighbouring channels: weight, bias [channels]. Input
/// [N, channels, ...] (Wu and He 2018, arXiv:1803.08494). Throws UserError unless groups divides
/// channels.
class GroupNorm : public NormLayer {
 public:
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5);
  /// Shares the tensors of `other`.
  GroupNorm(const GroupNorm& other) = default;

  std::string describe() const override;
  bool by_rows() const override;

  at::Tensor weight, bias;

 protected:
  at::Tensor normalize(const at::Tensor& input) override;

  int64_t groups_, channels_;
  double eps_;
};

}  // namespace composer
