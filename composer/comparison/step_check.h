// Compares two ways to train a network on the same batches.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "composer/run/trainer.h"
#include "nn/network/precision.h"

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
  /// weight is wrong by a factor of up to 1 +- 1/512, the rounding of bf16. Recorded for a
  /// reference only.
  std::vector<double> gradient_noise, statistics_noise;
  TrainedState after;  ///< recorded for compared steps only
};

/// The state before an update, without the weights.
struct UpdateStart {
  NamedTensors statistics;
  std::vector<at::Tensor> generators;  ///< the result of generator_states()
};

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

/// One of the two ways to train.
struct CheckedSide {
  /// The parts of the run, with the same network, seed and methods on both sides, and without a run
  /// folder. The reference has a train_loader; the other side trains on the same batches.
  std::function<TrainerParts()> parts;
  /// An object that is created before the side is trained and kept while it is; may be empty.
  std::function<std::shared_ptr<void>()> scope;
};

/// The tolerated differences of two steps, as shares; docs/runs.md explains the numbers.
struct Tolerances {
  double loss, logits, gradients, weights, statistics;
  /// Gradients below this share of the root mean square of all gradients are compared with that
  /// share.
  double least_gradient;
  /// Gradients and statistics may additionally differ by this many times their noise in the
  /// StepRecord.
  double noise;
};

/// The tolerances for two runs in these precisions: the coarser precision decides.
Tolerances tolerances_of(Precision one, Precision other);

/// A step, its reference, and the state in which both began.
struct StepPair {
  const StepRecord& checked;
  const StepRecord& reference;
  const TrainedState& before;
  /// Loss scaling skipped the step: gradients and weights are not compared.
  bool overflowed = false;
};

struct StepCheckOptions {
  int64_t steps = 3;
  int64_t free_steps = 0;  ///< further steps, in which each side continues by itself
};

/// The deviation of one kind of tensors over all steps.
struct Deviation {
  std::string what;  ///< "loss", "logits", "gradients", "weights" or "statistics"
  double tolerance = 0;
  std::vector<double> by_step;  ///< the largest error of each step; infinite if a number is not
                                ///< finite or the tensors' names differ
  std::string tensor;           ///< the tensor with the largest error; empty for loss and logits
  int64_t step = 0;             ///< the step with the largest error
  /// The first wrong tensor of the first step beyond the tolerance, in the order of computation
  /// (gradients: from the last layer on); empty if all steps are within the tolerance.
  std::string first;

  double worst() const { return by_step.empty() ? 0 : by_step[static_cast<size_t>(step)]; }
  bool within() const { return worst() <= tolerance; }
};

/// The deviations of loss, logits, gradients, weights and statistics, in this order. An error is
/// norm(difference) / norm(reference). For weights and statistics the rounding of float32 is
/// subtracted, and the norm of the step's change is the divisor. For gradients and statistics the
/// noise is subtracted.
std::vector<Deviation> deviations(const std::vector<StepPair>& steps, const Tolerances& tolerances);

struct StepCheck {
  struct Side {
    std::string device;
    Precision precision = Precision::fp32;
  };
  Side checked, reference;
  int64_t batch_size = 0;
  std::vector<Deviation> deviations;
  int64_t overflowed = 0;  ///< steps that loss scaling skipped
  /// Losses of the free steps: {checked, reference}.
  std::vector<std::pair<double, double>> free_losses;
  int signal = 0;  ///< the signal that ended the comparison early

  bool within() const;
};

/// Trains the reference, then the other side on the same batches. Each step of the other side
/// begins with the state of the reference's step. RunError if no step is left to train, or if loss
/// scaling skipped every step; UserError if max_duration is in seconds.
StepCheck check_steps(const CheckedSide& checked, const CheckedSide& reference,
                      const StepCheckOptions& options);

}  // namespace composer
