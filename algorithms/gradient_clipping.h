// gradient_clipping: bounds the gradients before the optimizer's step, so that no single batch
// throws training off: by their global norm (Pascanu et al. 2013, arXiv:1211.5063), by value, or
// adaptively, in proportion to the weights (Brock et al. 2021, "High-performance large-scale image
// recognition without normalization", arXiv:2102.06171).
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"
#include "nn/distributed/ranks.h"

namespace composer {

/// Clips the gradients of `parameters` in place, without waiting for the device; parameters without
/// a gradient are skipped.
/// type "norm": g * min(1, threshold / |all g|), L2.
/// type "value": every element into [-threshold, threshold].
/// type "adaptive": g * min(1, threshold * max(|w|, 1e-3) / |g|) for each unit, with its own L2
/// norms: a unit is a slice along the first dimension, or a whole parameter of at most one
/// dimension. Throws UserError for another type.
/// ranks: ranks that hold the gradients of other parameters, on `device`; the global norm includes
/// them.
void clip_gradients(const std::vector<at::Tensor>& parameters, std::string_view type,
                    double threshold, const Ranks& ranks = {}, at::Device device = at::kCPU);

class GradientClipping : public UnrestrictedAlgorithm {
 public:
  struct Params {
    std::string clipping_type;
    double clipping_threshold = 0;

    void fields(auto&& f) {
      f("clipping_type", clipping_type,
        "what is bounded: the global norm, each value, or each unit's norm by that of its weights",
        required, one_of("norm", "value", "adaptive"));
      f("clipping_threshold", clipping_threshold,
        "the bound; for adaptive a share of the weights' norm", required, above(0.0));
    }
  };

  explicit GradientClipping(Params params) : params_(std::move(params)) {}

  void after_train_batch(State& state) override;

 private:
  Params params_;
};

}  // namespace composer
