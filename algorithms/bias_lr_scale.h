// bias_lr_scale: trains the biases of normalisation layers with a multiple of the learning rate,
// which lets the network find the right thresholds sooner in short runs (D. Page 2019, "How to
// train your ResNet 8: Bag of tricks"; Jordan 2024, arXiv:2404.00498).
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"
#include "composer/recipe/compatibility.h"

namespace composer {

/// Names of the parameters of `model` that are called bias: all, or those of normalisation layers
/// only (BatchNorm2d, and what has a weight of one dimension).
std::vector<std::string> bias_names(const torch::nn::Module& model, bool norm_only);

/// The factor applies during the whole run, but not to weight decay.
class BiasLrScale : public UnrestrictedAlgorithm {
 public:
  struct Params {
    double scale = 64;
    std::string biases = "norm";

    void fields(auto&& f) {
      f("scale", scale, "factor of the biases' learning rate", above(0.0));
      f("biases", biases, "those of normalisation layers, or all", one_of("norm", "all"));
    }
  };

  explicit BiasLrScale(Params params) : params_(std::move(params)) {}

  static Compatibility compatibility();

  /// Throws UserError if the model has no such bias.
  void fit_start(State& state) override;

 private:
  Params params_;
};

}  // namespace composer
