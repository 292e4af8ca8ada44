// What a training step came to, tensor by tensor.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "composer/loop/algorithm.h"
#include "nn/state_dict.h"

namespace composer {

/// In the network's order.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// The parameters and buffers of a network.
struct TrainedState {
  NamedTensors weights, statistics;
};

/// Copies on the CPU; numbers as float32.
struct StepRecord {
  double loss = 0;    ///< of the whole batch
  at::Tensor logits;  ///< [N, classes]
  /// That the optimizer is given; of a batch's further updates as "conv1.weight in update 2".
  NamedTensors gradients;
  /// Of each gradient and of each of after.statistics the length of its change where each weight is
  /// off by up to weight_noise of itself; only of a reference.
  std::vector<double> gradient_noise, statistics_noise;
  TrainedState after;  ///< only of steps that are compared
};

/// What an update begins with beside the weights.
struct UpdateStart {
  NamedTensors statistics;
  std::vector<at::Tensor> generators;  ///< see generator_states()
};

inline constexpr double weight_noise = 1.0 / 512;  ///< bf16's rounding

/// Records the steps of the run that it is added to, which it ends after so many. A reference's may
/// be given to the witness of another run, which then begins each step with what the reference's
/// began with, and updates its weights by the reference's gradients: so that errors do not add up.
/// To be added before other algorithms: it sees what they make of a step.
class StepWitness : public Algorithm {
 public:
  /// steps: that are compared. free_steps: further ones, of which the first still begins alike.
  /// reference: outlives it; null: this is one.
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
  /// What a reference's recorded step began with.
  const TrainedState& before(size_t step) const { return befores_[step].trained; }

 private:
  int64_t steps_, free_steps_;
  const StepWitness* reference_;
  struct Before {
    TrainedState trained;
    StateDict optimizer;
    std::vector<at::Tensor> generators;
  };
  std::vector<Before> befores_;  ///< of a reference's steps, the first free one included
  std::vector<StepRecord> records_;
  UpdateStart update_start_;  ///< a reference's
  int64_t updates_ = 0;       ///< of this step that are recorded
};

}  // namespace composer
