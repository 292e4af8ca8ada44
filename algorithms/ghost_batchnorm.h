// ghost_batchnorm: batch normalisation over pieces of the batch, whose noisier statistics
// generalise like those of small batches (Hoffer et al. 2017, "Train longer, generalize better",
// arXiv:1705.08741).
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "algorithms/parts/surgery.h"
#include "base/params/params.h"
#include "nn/network/layers.h"
#include "nn/network/surgery.h"

namespace composer {

/// The number of pieces in which `samples` are normalised: ceil(samples / ghost_batch_size), but
/// with at least two samples per piece.
int64_t ghost_batches(int64_t samples, int64_t ghost_batch_size);

/// Normalises each piece by its own mean and variance in training. The running statistics
/// are updated by each piece with the momentum divided by the number of pieces. In evaluation it is
/// a plain BatchNorm2d. Shares the tensors of the original.
class GhostBatchNorm2d : public BatchNorm2d {
 public:
  GhostBatchNorm2d(const BatchNorm2d& original, int64_t ghost_batch_size)
      : BatchNorm2d(original), ghost_batch_size_(ghost_batch_size) {}

  using BatchNorm2d::forward;
  at::Tensor forward(const at::Tensor& input, const at::Tensor& residual,
                     Activation activation) override;
  std::string describe() const override;

 private:
  int64_t ghost_batch_size_;
};

class GhostBatchNorm : public Surgery {
 public:
  struct Params {
    int64_t ghost_batch_size = 32;

    void fields(auto&& f) {
      f("ghost_batch_size", ghost_batch_size, "samples that are normalised together at most",
        at_least(2));
    }
  };

  explicit GhostBatchNorm(Params params) : params_(params) {}

  void init(State& state) override;
  void fit_start(State& state) override;

 private:
  Params params_;
};

/// Replaces every BatchNorm2d by a GhostBatchNorm2d. Weights, buffers and their names stay. Throws
/// UserError if there is none.
std::vector<Replacement> apply_ghost_batchnorm(Block& model, int64_t ghost_batch_size);

}  // namespace composer
