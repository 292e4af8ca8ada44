// The network of the CIFAR-10 speedruns: hlb-CIFAR10 (tysam-code 2023) and airbench (Jordan 2024,
// "94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv:2404.00498).
#pragma once

#include <string>
#include <vector>

#include "models/named_network.h"

namespace composer {

/// whiten (2x2, 3 -> 24), GELU, then for each width a group of conv, pool by 2, norm, activation,
/// conv, norm, activation; then a global max pool and a linear head. With three convolutions a
/// group adds its first activation to the last norm's output, before the activation. Weights of
/// normalisation layers are fixed at 1, their biases are trained. Input [N, 3, H, W] of at least
/// 2^groups + 1 pixels a side (9 for three groups), made for 32 x 32; UserError for another.
/// Parameter names: whiten, layer1.conv1, layer1.norm1, layer1.conv2, ..., head. The algorithm
/// `whitening` fills the layer `whiten`, as the speedruns do; without it `whiten` is an ordinary
/// convolution.
class Airbench final : public NamedNetwork {
 public:
  struct Params {
    std::vector<int64_t> widths{64, 256, 256};
    int64_t group_convs = 2;
    std::string activation = "gelu";
    double norm_momentum = 0.4;
    bool whitening_bias = true;
    double logit_scale = 1.0 / 9;
    bool unit_head = false;
    int64_t num_classes = 10;

    void fields(auto&& f) {
      f("widths", widths, "channels of each group", at_least(1));
      f("group_convs", group_convs,
        "convolutions of each group; of three, the last two are a residual branch", in(2, 3));
      f("activation", activation, "of the groups; the first layer's is gelu",
        one_of("gelu", "silu"));
      f("norm_momentum", norm_momentum, "share of a batch in the running statistics", above(0.0),
        in(0.0, 1.0));
      f("whitening_bias", whitening_bias, "the first layer has a bias");
      f("logit_scale", logit_scale, "the logits are multiplied by it", above(0.0));
      f("unit_head", unit_head, "the head's weights start with a standard deviation of 1");
      f("num_classes", num_classes, "outputs", at_least(1));
    }
    std::string check() const {
      if (widths.empty() || widths.size() > 4) return "widths: must be one to four numbers";
      if (unit_head && widths.back() == 1 && num_classes == 1)
        return "unit_head: a head of one weight has no standard deviation";
      return "";
    }
  };

  explicit Airbench(const Params& params);

  at::Tensor forward(const at::Tensor& input) override;

 private:
  double logit_scale_;
};

}  // namespace composer
