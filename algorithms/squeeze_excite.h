// squeeze_excite: lets a network weigh its channels, each by a gate that is computed from the mean
// of all of them (Hu et al. 2018, "Squeeze-and-excitation networks", arXiv:1709.01507).
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "algorithms/parts/replaced_layers.h"
#include "algorithms/parts/surgery.h"
#include "base/params/params.h"
#include "nn/network/surgery.h"

namespace composer {

class SqueezeExcite : public Surgery {
 public:
  struct Params {
    double latent_channels = 64;
    int64_t min_channels = 128;

    void fields(auto&& f) {
      f("latent_channels", latent_channels,
        "width of the gates' hidden layer; below 1 a share of the convolution's output channels",
        above(0));
      f("min_channels", min_channels,
        "convolutions with fewer input or output channels are left alone", at_least(1));
    }
    std::string check() const { return check_width("latent_channels", latent_channels); }
  };

  explicit SqueezeExcite(Params params) : params_(params) {}

  /// So that it gates the convolutions that others put in place.
  Order order(Event) const override { return Order::last; }

  void init(State& state) override;

 private:
  Params params_;
};

/// Puts a SqueezeExciteConv in place of every convolution with enough channels. Names of weights
/// stay, new ones are drawn from `seed`. Throws UserError when nothing fits.
std::vector<Replacement> apply_squeeze_excite(Block& model, const SqueezeExcite::Params& params,
                                              uint64_t seed);

}  // namespace composer
