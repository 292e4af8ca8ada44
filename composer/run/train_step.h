// One training step: from a batch on the device to updated weights.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "composer/loop/engine.h"
#include "composer/loop/state.h"
#include "composer/run/captured_steps.h"
#include "nn/network/gradient_sync.h"
#include "nn/network/metrics.h"
#include "nn/network/precision.h"

namespace composer {

/// The events from before_train_batch to after_train_batch are fired here.
class TrainStep {
 public:
  /// state: with its device and precision; referred to, as is `engine`. grad_clip_norm: of all
  /// gradients together; not above 0: no limit. With sync.when_asked a step whose passes run out of
  /// memory on some rank leaves no trace, and is done again on all in twice as many microbatches:
  /// state.grad_accum grows. RunError where there can be no smaller ones. It is then the number of
  /// a whole batch; smaller ones have as many as its largest microbatch asks for.
  TrainStep(State& state, Engine& engine, double grad_clip_norm,
            const GradientSyncOptions& sync = {});
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  /// state.batch through the network, in state.updates updates of state.grad_accum microbatches in
  /// all. Leaves state.batch whole. Returns the mean loss over the batch of all ranks, a scalar on
  /// the device.
  at::Tensor run();

  /// From before_forward to the end of an update, steps are replayed.
  void replay_by(std::unique_ptr<CapturedSteps> graphs);

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
  at::Tensor replayed_update();
  at::Tensor repeated_update();
  at::Tensor passes_of_all(const std::vector<Batch>& microbatches);
  at::Tensor forward_backward(const std::vector<Batch>& microbatches);
  void forget_passes();
  void split_further(const std::string& problem);
  int64_t microbatches_of(int64_t samples, int64_t grad_accum) const;
  int64_t largest_microbatch(int64_t grad_accum) const;
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
  /// What metric_ gets of the passes: sum and samples.
  std::vector<std::pair<at::Tensor, int64_t>> sums_;
  bool repeats_;                           ///< what runs out of memory
  bool updating_ = false;                  ///< from the passes on, which can be repeated
  std::unique_ptr<CapturedSteps> graphs_;  ///< null: steps are not replayed
};

}  // namespace composer
