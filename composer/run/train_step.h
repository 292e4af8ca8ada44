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

/// Runs training steps, with the events from before_train_batch to after_train_batch.
class TrainStep {
 public:
  /// state: has its device and precision; a reference is kept, as to `engine`. grad_clip_norm: the
  /// largest norm of all gradients; not above 0: no limit. With sync.when_asked a step that runs
  /// out of memory on some rank has no effect, and is repeated on all ranks with twice as many
  /// microbatches: state.grad_accum grows. RunError if microbatches cannot be smaller. grad_accum
  /// then holds for a whole batch; smaller batches have as few microbatches as its largest
  /// microbatch allows.
  TrainStep(State& state, Engine& engine, double grad_clip_norm,
            const GradientSyncOptions& sync = {});
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  /// Trains on state.batch, in state.updates updates of state.grad_accum microbatches in all.
  /// Leaves state.batch unchanged. Returns the mean loss over the batch of all ranks, a scalar on
  /// the device.
  at::Tensor run();

  /// Replays steps from before_forward to the end of an update.
  void replay_by(std::unique_ptr<CapturedSteps> graphs);

  /// Implements State::recompute_gradients.
  void recompute_gradients();

  /// The objective's running_metric() of the training batches since its reset.
  RunningMetric& metric() { return metric_; }
  GradScaler& scaler() { return scaler_; }
  /// Bytes of gradients that this rank has sent to be summed so far.
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

  /// The input of a forward pass, for recompute_gradients().
  struct Pass {
    at::Tensor input;
    Target target;
    int64_t first_sample;
    double share;  ///< share of the samples of all ranks' batch
  };

  State& state_;
  Engine& engine_;
  double grad_clip_norm_;
  GradientSync sync_;
  GradScaler scaler_;
  RunningMetric metric_;
  std::vector<Pass> passes_;
  /// The sums and numbers of samples that metric_ gets from the passes.
  std::vector<std::pair<at::Tensor, int64_t>> sums_;
  bool repeats_;           ///< repeats steps that run out of memory
  bool updating_ = false;  ///< the passes are over: the step can no longer be repeated
  std::unique_ptr<CapturedSteps> graphs_;  ///< null: steps are not replayed
};

}  // namespace composer
