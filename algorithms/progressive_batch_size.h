// progressive_batch_size: many small updates first, few large ones later, in place of a learning
// rate that decays (Smith et al. 2018, "Don't decay the learning rate, increase the batch size",
// arXiv:1711.00489).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"

namespace composer {

/// Divides each batch of the loader into equal parts with an update of the weights each; the parts
/// get fewer and larger as training proceeds. Every sample is trained on.
class ProgressiveBatchSize : public UnrestrictedAlgorithm {
 public:
  struct Params {
    double initial_scale = 0.5;
    double delay_fraction = 0.5;
    double finetune_fraction = 0.2;
    bool scale_lr = false;

    void fields(auto&& f) {
      f("initial_scale", initial_scale,
        "samples of the first updates, as a share of train_batch_size", in(0.0, 0.5), above(0.0));
      f("delay_fraction", delay_fraction, "share of training at its start that has these updates",
        in(0.0, 1.0));
      f("finetune_fraction", finetune_fraction,
        "share of training at its end whose updates take the whole batch", in(0.0, 1.0));
      f("scale_lr", scale_lr, "make the learning rate smaller in the proportion of the updates");
    }
    std::string check() const;
  };

  explicit ProgressiveBatchSize(Params params) : params_(params) {}

  /// Throws UserError if batches of this size would never be divided.
  void fit_start(State& state) override;
  void batch_start(State& state) override;
  /// "progressive_batch_size/batch_size": the samples of an update.
  std::vector<std::pair<std::string, double>> planned(const State& state) const override;

 private:
  Params params_;
};

/// Samples of an update when the share `elapsed` of training is done: batch_size divided by one of
/// its divisors, the largest that is at most round(1 / scale), with `scale` growing linearly from
/// initial_scale, at delay_fraction, to 1, at 1 - finetune_fraction.
int64_t batch_size_at(double elapsed, int64_t batch_size,
                      const ProgressiveBatchSize::Params& params);

/// The number of equal parts of a batch of `samples`, so that each part has at least `batch_size`
/// samples (unless the batch has fewer).
int64_t updates_of(int64_t samples, int64_t batch_size);

}  // namespace composer
