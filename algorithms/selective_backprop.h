// selective_backprop: trains on the samples of each batch whose loss is large and leaves most
// others out, at the price of one more forward pass (Jiang et al. 2019, "Accelerating deep learning
// by focusing on the biggest losers", arXiv:1910.00762).
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "algorithms/parts/unrestricted_algorithm.h"
#include "base/params/params.h"
#include "base/random.h"
#include "nn/network/network.h"

namespace composer {

/// The loss of each sample of `batch`, float32 [N], on images reduced bilinearly to `scale_factor`,
/// in (0, 1], of their sides. Without gradients; the network's buffers keep their values, bit
/// by bit.
at::Tensor sample_losses(const Network& network, const Batch& batch, double scale_factor = 1);

/// int64 [floor(keep * n)], at least one, ascending: ranks in 0..n-1, drawn without replacement
/// with weights ((rank + 0.5) / n)^(1 / keep - 1). keep: in (0, 1].
at::Tensor drawn_ranks(int64_t n, double keep, Random& random);

/// The samples of `batch` whose `losses` (float32 [N]) have these ranks, rank 0 for the smallest,
/// in the batch's order. ranks: from drawn_ranks(), on any device.
Batch select_by_loss(const Batch& batch, const at::Tensor& losses, const at::Tensor& ranks);

/// Selects before other algorithms change the batch, so that samples are mixed among the selected
/// ones. The extra forward pass runs in training mode without gradients, in as many pieces as there
/// are microbatches. Each rank selects within its share.
class SelectiveBackprop : public UnrestrictedAlgorithm {
 public:
  struct Params {
    double start = 0.5;
    double end = 0.9;
    double keep = 0.5;
    double scale_factor = 1;
    int64_t interrupt = 2;

    void fields(auto&& f) {
      f("start", start, "share of training after which samples are left out", in(0.0, 1.0));
      f("end", end, "share of training from which on all samples count again", in(0.0, 1.0));
      f("keep", keep, "share of each batch that is trained on; below 1", in(0.0, 1.0), above(0.0));
      f("scale_factor", scale_factor,
        "side of the images of the extra forward pass, as a share of the full one", in(0.0, 1.0),
        above(0.0));
      f("interrupt", interrupt, "every so many batches of an epoch one is left whole; 0: none",
        at_least(0));
    }
    std::string check() const;
  };

  explicit SelectiveBackprop(Params params) : params_(params) {}

  /// Whether samples are left out of the batch when the share `elapsed` of training is done.
  static bool active(double elapsed, int64_t batch_in_epoch, const Params& params);

  Order order(Event) const override { return Order::early; }

  std::string against_repeated_steps(bool) const override {
    return "it sends whole batches through the network before the step, which does not split them";
  }
  void after_dataloader(State& state) override;
  /// The share of a batch that is trained on; `interrupt` is not taken into account.
  std::vector<std::pair<std::string, double>> planned(const State& state) const override;

 private:
  Params params_;
};

}  // namespace composer
