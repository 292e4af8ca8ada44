// Records the tensors of training steps.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "composer/loop/algorithm.h"
#include "nn/state_dict.h"

namespace composer {

/// Tensors by name, in the network's order.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// The parameters and buffers of a network.
struct TrainedState {
  NamedTensors weights, statistics;
};

/// The results of a step: copies on the CPU, as float32.
struct StepRecord {
  double loss = 0;    ///< loss of the whole batch
  at::Tensor logits;  ///< [N, classes]
  /// The gradients that the optimizer gets; those of a batch's further updates are named
  /// "conv1.weight in update 2".
  NamedTensors gradients;
  /// The norm of the change of each gradient, and of each tensor of after.statistics, if each
  /// weight is wrong by a factor of up to 1 +- weight_noise. Recorded for a reference only.
  std::vector<double> gradient_noise, statistics_noise;
  TrainedState after;  ///< recorded for compared steps only
};

/// The state before an update, without the weights.
struct UpdateStart {
  NamedTensors statistics;
  std::vector<at::Tensor> generators;  ///< the result of generator_states()
};

inline constexpr double weight_noise = 1.0 / 512;  ///< the rounding of bf16

/// Records the steps of its run, and ends the run after `steps` + `free_steps`. With a reference,
/// each step begins with the state of the reference's step, and the weights are updated by the
/// reference's gradients, so that errors do not add up. To be added before other algorithms, so
/// that it records their effect on a step.
class StepWitness : public Algorithm {
 public:
  /// steps: the number of compared steps. free_steps: the number of further steps; the first one
  /// still begins with the reference's state. reference: outlives this object; null: this object is
  /// a reference.
  StepWitness(int64_t steps, int64_t free_steps, const StepWitness* reference)
      : steps_(steps), free_steps_(free_steps), reference_(reference) {}

  Order order(Event event) const override {
    return event == Event::augment ? Order::first : Order::last;
  }
  void augment(State& state) override;
  void before_train_batch(State& state) override;
  void before_backward(State& state) override;
  void after_train_batch(State& state) override;
  void batch_end(State& state) override;

  const std::vector<StepRecord>& records() const { return records_; }
  /// The state in which a reference's recorded step began.
  const TrainedState& before(size_t step) const { return befores_[step].trained; }

 private:
  int64_t steps_, free_steps_;
  const StepWitness* reference_;
  struct Before {
    TrainedState trained;
    StateDict optimizer;
    std::vector<at::Tensor> generators;
  };
  /// States before a reference's steps, the first free step included.
  std::vector<Before> befores_;
  std::vector<StepRecord> records_;
  UpdateStart update_start_;  ///< set for a reference
  int64_t updates_ = 0;       ///< recorded updates of this step
};

}  // namespace composer
