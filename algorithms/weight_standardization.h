// weight_standardization: computes with convolution weights whose filters have mean 0 and variance
// 1, which smooths the loss and helps where batches are small (Qiao et al. 2019, "Micro-batch
// training with batch-channel normalization and weight standardization", arXiv:1903.10520).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/parts/surgery.h"
#include "base/params/params.h"
#include "nn/network/layers.h"
#include "nn/network/surgery.h"

namespace composer {

/// (weight - mean) / sqrt(variance + 1e-10), both over all dimensions but the first; the variance
/// is the population's.
at::Tensor standardize_weight(const at::Tensor& weight);

/// `original`, a Conv2d of any kind, with its weight standardised in each forward pass. The
/// parameters stay the original's.
class StandardizedConv2d : public Conv2d {
 public:
  explicit StandardizedConv2d(std::shared_ptr<Conv2d> original)
      : Conv2d(*original), original_(std::move(original)) {}

  at::Tensor forward(const at::Tensor& input) override;
  std::string describe() const override;
  bool by_rows() const override { return original_->by_rows(); }

 private:
  std::shared_ptr<Conv2d> original_;
};

/// Runs last at init, to include the convolutions that surgery put into the model.
class WeightStandardization : public Surgery {
 public:
  struct Params {
    int64_t n_last_layers_ignore = 0;

    void fields(auto&& f) {
      f("n_last_layers_ignore", n_last_layers_ignore,
        "so many convolutions at the end of the model are left alone", at_least(0));
    }
  };

  explicit WeightStandardization(Params params) : params_(params) {}

  Order order(Event) const override { return Order::last; }
  void init(State& state) override;

 private:
  Params params_;
};

/// Standardises the weights of all convolutions except the last `ignored` ones and convolutions
/// whose filters are single numbers. Weights and their names stay. Throws UserError if there is
/// none.
std::vector<Replacement> apply_weight_standardization(Block& model, int64_t ignored = 0);

}  // namespace composer
