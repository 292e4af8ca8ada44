// Layers that one method puts into a model and other methods must support: convolutions with gates
// (squeeze_excite), pairs of low rank (factorize), and layers that round (quantization_aware).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "nn/network/layers.h"

namespace composer {

/// float32 or bfloat16 values -> the numbers of the nearest of 2^bits codes, which cover all values
/// and represent 0 exactly. The gradient passes through unchanged.
at::Tensor rounded_activations(const at::Tensor& values, int64_t bits);

/// weight [out, ...] -> the numbers of its int8 codes, with one scale per output. The gradient
/// passes through unchanged.
at::Tensor rounded_weight(const at::Tensor& weight);

/// Rounds the input and the weight of a convolution or a linear layer, or leaves them as they are.
struct Rounder {
  int64_t bits = 0;  ///< bits of activations; 0: no rounding

  at::Tensor input(const at::Tensor& values) const {
    return bits == 0 ? values : rounded_activations(values, bits);
  }
  at::Tensor weight(const at::Tensor& values) const {
    return bits == 0 ? values : rounded_weight(values);
  }
};

/// A layer that computes with several convolutions or linear layers.
class RoundsWithin {
 public:
  virtual ~RoundsWithin() = default;

  /// forward() in training with the inputs and weights of the inner layers rounded. The caller
  /// rounds the layer's own parameter.
  virtual at::Tensor forward_rounded(const at::Tensor& input, const Rounder& rounder) = 0;
};

/// Gives a tensor another value until the end of the scope.
class Exchanged {
 public:
  Exchanged(at::Tensor& tensor, at::Tensor value)
      : tensor_(tensor), before_(std::exchange(tensor, std::move(value))) {}
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;
  ~Exchanged() { tensor_ = std::move(before_); }

 private:
  at::Tensor& tensor_;
  at::Tensor before_;
};

/// input * sigmoid(excite * relu(squeeze * mean(input))), the mean over height and width.
/// input [N, C, H, W], squeeze [latent, C], excite [C, latent]. rounder: rounds the inputs and
/// weights of the two linear layers.
at::Tensor squeeze_excite(const at::Tensor& input, const at::Tensor& squeeze,
                          const at::Tensor& excite, const Rounder& rounder = {});

/// A convolution whose output channels are gated. Has the convolution's parameters under their
/// names, and "squeeze" and "excite".
class SqueezeExciteConv : public Layer {
 public:
  /// The new weights are drawn uniformly by fan-in from `seed` and `index`.
  SqueezeExciteConv(std::shared_ptr<Conv2d> conv, int64_t latent_channels, uint64_t seed,
                    uint64_t index);

  /// Another convolution with the same number of output channels, gated by the weights of `gates`.
  SqueezeExciteConv(std::shared_ptr<Conv2d> conv, const SqueezeExciteConv& gates);

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  bool by_rows() const override { return conv_->by_rows(); }
  void train(bool on = true) override;

  const std::shared_ptr<Conv2d>& conv() const { return conv_; }
  at::Tensor squeeze, excite;

 private:
  void register_parameters();

  std::shared_ptr<Conv2d> conv_;
};

/// A line for Params::check() if `wanted`, the value of `key`, is neither a share below 1 nor a
/// whole number up to a million; else "".
std::string check_width(const std::string& key, double wanted);

/// The number of channels or features that `wanted` means: a share of `full` if below 1. Rounded
/// down, at least 1.
int64_t inner_width(double wanted, int64_t full);

/// `layer` if it is a convolution, the convolution that it gates, or null.
std::shared_ptr<Conv2d> conv_of(Layer& layer);

/// Two thin layers that replace a wide one, in slots "0" and "1".
class Factorized : public Block {
 public:
  Factorized(std::shared_ptr<Layer> first, std::shared_ptr<Layer> second);

  at::Tensor forward(const at::Tensor& input) override { return second_(first_(input)); }
  std::string describe() const override;
  bool by_rows() const override { return true; }

  const std::shared_ptr<Layer>& first() const { return first_.layer(); }
  const std::shared_ptr<Layer>& second() const { return second_.layer(); }

 private:
  Slot &first_, &second_;
};

}  // namespace composer
