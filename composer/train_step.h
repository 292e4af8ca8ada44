// One training step: from a batch on the device to updated weights.
#pragma once

#include <memory>
#include <vector>

#include "composer/distributed/gradient_sync.h"
#include "composer/engine.h"
#include "composer/network/metrics.h"
#include "composer/optimization/precision.h"
#include "composer/state.h"
#include "composer/step_graphs.h"

namespace composer {

/// The events from before_train_batch to after_train_batch are fired here.
class TrainStep {
 public:
  /// state: with its device and precision; referred to, as is `engine`. grad_clip_norm: of all
  /// gradients together; not above 0: no limit.
  TrainStep(State& state, Engine& engine, double grad_clip_norm,
            const GradientSyncOptions& sync = {});
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  /// state.batch through the network, in state.updates updates of state.grad_accum microbatches in
  /// all. Leaves state.batch whole. Returns the mean loss over the batch of all ranks, a scalar on
  /// the device.
  at::Tensor run();

  /// From before_forward to the end of an update, steps are replayed.
  void replay_by(std::unique_ptr<StepGraphs> graphs) { graphs_ = std::move(graphs); }

  /// See State::recompute_gradients.
  void recompute_gradients();

  /// The objective's running_metric() of the training batches since its reset.
  RunningMetric& metric() { return metric_; }
  GradScaler& scaler() { return scaler_; }
  /// Of gradients that this rank gave to be summed since the beginning.
  int64_t sent_bytes() const;

 private:
  at::Tensor update_on(const Batch& part);
  at::Tensor update();
  at::Tensor forward_backward(const std::vector<Batch>& microbatches);
  at::Tensor loss_of(const at::Tensor& outputs, const Target& target, double share) const;
  void backward(const at::Tensor& loss, bool last);
  void finish_gradients();
  void update_weights();

  /// What each microbatch went through the network as, for recompute_gradients.
  struct Pass {
    at::Tensor input;
    Target target;
    int64_t first_sample;
    double share;  ///< of the batch's samples, over all ranks
  };

  State& state_;
  Engine& engine_;
  double grad_clip_norm_;
  GradientSync sync_;
  GradScaler scaler_;
  RunningMetric metric_;
  std::vector<Pass> passes_;
  std::unique_ptr<StepGraphs> graphs_;  ///< null: steps are not replayed
};

}  // namespace composer
