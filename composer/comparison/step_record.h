// What a training step came to, tensor by tensor.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "composer/algorithm.h"

namespace composer {

/// In the network's order.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// The parameters and buffers of a network, and its optimizer's state.
struct TrainedState {
  NamedTensors weights, statistics;
  StateDict optimizer;
};

/// Copies on the CPU; numbers as float32.
struct StepRecord {
  double loss = 0;         ///< of the whole batch
  at::Tensor logits;       ///< [N, classes]
  NamedTensors gradients;  ///< that the optimizer is given, of the batch's last update
  /// Of each gradient and of each of after.statistics the length of its change where each weight is
  /// off by up to weight_noise of itself; only of a reference.
  std::vector<double> gradient_noise, statistics_noise;
  TrainedState after;
};

inline constexpr double weight_noise = 1.0 / 512;  ///< bf16's rounding

/// Records the steps of the run that it is added to, which it ends after so many. A reference's may
/// be given to the witness of another run, which then begins each step with what the reference's
/// began with, and updates its weights by the reference's gradients: so that errors do not add up.
class StepWitness : public Algorithm {
 public:
  /// steps: that are compared. free_steps: further ones, of which the first still begins alike.
  /// reference: outlives it; null: this is one.
  StepWitness(int64_t steps, int64_t free_steps, const StepWitness* reference)
      : steps_(steps), free_steps_(free_steps), reference_(reference) {}

  Order order(Event) const override { return Order::last; }
  void batch_start(State& state) override;
  void before_backward(State& state) override;
  void after_train_batch(State& state) override;
  void batch_end(State& state) override;

  const std::vector<StepRecord>& records() const { return records_; }
  /// What a recorded step began with.
  const TrainedState& before(size_t step) const {
    return step == 0 ? start_ : records_[step - 1].after;
  }

 private:
  int64_t steps_, free_steps_;
  const StepWitness* reference_;
  TrainedState start_;
  std::vector<StepRecord> records_;
};

}  // namespace composer
