// factorize: splits wide convolutions and linear layers in two thin ones, the best approximation of
// the original's weight by its singular values (Jaderberg et al. 2014, "Speeding up convolutional
// neural networks with low rank expansions", arXiv:1405.3866).
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <utility>
#include <vector>

#include "algorithms/parts/replaced_layers.h"
#include "algorithms/parts/surgery.h"
#include "base/params/params.h"
#include "nn/network/surgery.h"

namespace composer {

/// [out, in] -> [out, rank] and [rank, in], whose product is the best approximation of `matrix` of
/// this rank; each factor contains the square roots of the singular values.
std::pair<at::Tensor, at::Tensor> low_rank(const at::Tensor& matrix, int64_t rank);

/// The largest rank at which two factors take less arithmetic than an [out, in] matrix.
int64_t largest_useful_rank(int64_t in, int64_t out);

/// "0": k x k convolution to `rank` channels, without bias; "1": 1x1 to the original's channels,
/// with its bias.
std::shared_ptr<Layer> factorized(const Conv2d& conv, int64_t rank);
/// "0": to `rank` features, without bias; "1": to the original's features, with its bias.
std::shared_ptr<Layer> factorized(const Linear& linear, int64_t rank);

class Factorize : public Surgery {
 public:
  struct Params {
    bool factorize_convs = true;
    bool factorize_linears = true;
    int64_t min_channels = 256;
    double latent_channels = 0.25;
    int64_t min_features = 256;
    double latent_features = 128;

    void fields(auto&& f) {
      f("factorize_convs", factorize_convs, "whether convolutions are split");
      f("factorize_linears", factorize_linears, "whether linear layers are split");
      f("min_channels", min_channels,
        "convolutions with fewer input or output channels are left alone", at_least(1));
      f("latent_channels", latent_channels,
        "channels between the two convolutions; below 1 a share of the fewer of input and output",
        above(0));
      f("min_features", min_features, "linear layers with fewer inputs or outputs are left alone",
        at_least(1));
      f("latent_features", latent_features,
        "features between the two linear layers; below 1 a share of the fewer of inputs and "
        "outputs",
        above(0));
    }
    std::string check() const {
      return check_width("latent_channels", latent_channels) +
             check_width("latent_features", latent_features);
    }
  };

  explicit Factorize(Params params) : params_(params) {}

  /// First, before methods that replace convolutions by layers that cannot be split.
  Order order(Event) const override { return Order::first; }

  void init(State& state) override;

 private:
  Params params_;
};

/// Splits every layer that is wide enough and gets cheaper, except convolutions with groups. Throws
/// UserError if there is none.
std::vector<Replacement> apply_factorization(Block& model, const Factorize::Params& params);

}  // namespace composer
