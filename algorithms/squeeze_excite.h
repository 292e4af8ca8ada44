// squeeze_excite: lets a network weigh its channels, each by a gate that is computed from the mean
// of all of them (Hu et al. 2018, "Squeeze-and-excitation networks", arXiv:1709.01507).
#pragma once

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

  /// Last, to gate the convolutions that other algorithms put into the model.
  Order order(Event) const override { return Order::last; }

  void init(State& state) override;

 private:
  Params params_;
};

/// Replaces every convolution with enough channels by a SqueezeExciteConv. Weights keep their
/// names; new weights are drawn from `seed`. Throws UserError if there is none.
std::vector<Replacement> apply_squeeze_excite(Block& model, const SqueezeExcite::Params& params,
                                              uint64_t seed);

}  // namespace composer
