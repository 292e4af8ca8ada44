// Layers that one method puts in place and that others must see through: convolutions with gates
// (squeeze_excite), and pairs of low rank (factorize).
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "algorithms/parts/rounding.h"
#include "nn/network/layers.h"

namespace composer {

/// input * sigmoid(excite * relu(squeeze * mean(input))), the mean over height and width.
/// input [N, C, H, W], squeeze [latent, C], excite [C, latent]. rounder: of what the two linear
/// layers read.
at::Tensor squeeze_excite(const at::Tensor& input, const at::Tensor& squeeze,
                          const at::Tensor& excite, const Rounder& rounder = {});

/// A convolution and the gates of its output. Holds the convolution's parameters under their names,
/// and "squeeze" and "excite".
class SqueezeExciteConv : public Layer {
 public:
  /// The new weights are drawn uniformly by fan-in from `seed` and `index`.
  SqueezeExciteConv(std::shared_ptr<Conv2d> conv, int64_t latent_channels, uint64_t seed,
                    uint64_t index);

  /// The gates of `gates` around another convolution with as many output channels.
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

/// A line for Params::check() where `wanted`, the value of `key`, is no share below 1 and no whole
/// number up to a million; else "".
std::string check_width(const std::string& key, double wanted);

/// `wanted` channels or features, below 1 a share of `full`; rounded down but at least one.
int64_t inner_width(double wanted, int64_t full);

/// The convolution that `layer` is or puts gates on, or null.
std::shared_ptr<Conv2d> conv_of(Layer& layer);

/// Two thin layers in place of a wide one, in slots "0" and "1".
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
