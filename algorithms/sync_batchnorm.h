// sync_batchnorm: batch normalisation by the mean and variance of the batch of all ranks in place
// of each rank's share, for shares too small to normalise by (Peng et al. 2018, "MegDet",
// arXiv:1711.07240).
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "algorithms/parts/surgery.h"
#include "composer/recipe/compatibility.h"
#include "nn/distributed/ranks.h"
#include "nn/network/layers.h"
#include "nn/network/surgery.h"

namespace composer {

/// In training normalises by the statistics of all ranks (nn/network/synced_norm.h); with one
/// rank, and in evaluation, it is a plain BatchNorm2d. Shares the tensors of the original.
class SyncBatchNorm2d : public BatchNorm2d {
 public:
  SyncBatchNorm2d(const BatchNorm2d& original, Ranks ranks)
      : BatchNorm2d(original), ranks_(std::move(ranks)) {}

  using BatchNorm2d::forward;
  at::Tensor forward(const at::Tensor& input, const at::Tensor& residual,
                     Activation activation) override;
  std::string why_separate() const override;
  std::string describe() const override;
  bool by_rows() const override { return true; }

 private:
  Ranks ranks_;
};

class SyncBatchNorm : public Surgery {
 public:
  static Compatibility compatibility();

  void init(State& state) override;
  std::string against_repeated_steps(bool alone) const override {
    return alone ? "" : "ranks wait for each other within its passes";
  }
};

/// Replaces every BatchNorm2d by a SyncBatchNorm2d. Weights, buffers and their names stay. Throws
/// UserError if there is none.
std::vector<Replacement> apply_sync_batchnorm(Block& model, const Ranks& ranks);

}  // namespace composer
