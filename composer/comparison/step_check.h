// Two ways to train a network, side by side on the same batches.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "composer/comparison/step_record.h"
#include "composer/run/trainer.h"
#include "nn/network/precision.h"

namespace composer {

/// One of the two ways.
struct CheckedSide {
  /// The same network, seed and methods on both sides, and nothing left on the disk. The reference
  /// has a train_loader; the other trains on the batches that this one gave.
  std::function<TrainerParts()> parts;
  /// Made before the side is trained and kept meanwhile; may be empty.
  std::function<std::shared_ptr<void>()> scope;
};

/// What two steps may differ by, as shares: see docs/runs.md for where the numbers come from.
struct Tolerances {
  double loss, logits, gradients, weights, statistics;
  /// Gradients below this share of the network's root mean square are held against that.
  double least_gradient;
  /// Gradients and statistics may differ by so many times their noise in the StepRecord beside.
  double noise;
};

/// Of two runs in these precisions: the coarser one decides.
Tolerances tolerances_of(Precision one, Precision other);

/// A step, the one it is held against, and what both began with.
struct StepPair {
  const StepRecord& checked;
  const StepRecord& reference;
  const TrainedState& before;
  bool overflowed = false;  ///< loss scaling skipped it: gradients and weights say nothing
};

struct StepCheckOptions {
  int64_t steps = 3;
  int64_t free_steps = 0;  ///< after these, in which each side goes on by itself
};

/// One kind of tensors over all steps.
struct Deviation {
  std::string what;  ///< "loss", "logits", "gradients", "weights" or "statistics"
  double tolerance = 0;
  std::vector<double> by_step;  ///< of the worst tensor of each; infinite where not finite or the
                                ///< tensors are not the same ones
  std::string tensor;           ///< the worst of all; empty for loss and logits
  int64_t step = 0;             ///< that it is of
  /// Where the first step beyond the tolerance begins to be wrong, in the order of computing
  /// (gradients: from the last layer on); empty where it is within.
  std::string first;

  double worst() const { return by_step.empty() ? 0 : by_step[static_cast<size_t>(step)]; }
  bool within() const { return worst() <= tolerance; }
};

/// Loss, logits, gradients, weights, statistics, in this order. Errors are
/// norm(difference) / norm(reference); of weights and statistics less what float32 rounds, over the
/// norm of what the step changed; of gradients and statistics less the noise.
std::vector<Deviation> deviations(const std::vector<StepPair>& steps, const Tolerances& tolerances);

struct StepCheck {
  struct Side {
    std::string device;
    Precision precision = Precision::fp32;
  };
  Side checked, reference;
  int64_t batch_size = 0;
  std::vector<Deviation> deviations;
  int64_t overflowed = 0;  ///< steps whose gradients and weights loss scaling gave up
  std::vector<std::pair<double, double>> free_losses;  ///< of both, checked first
  int signal = 0;                                      ///< that ended it early

  bool within() const;
};

/// Trains the reference, then the other on the same batches, of which every step begins with what
/// the reference's began with. RunError where the run has no step left to train, or loss scaling
/// gave up every one; UserError for a run that so many seconds end.
StepCheck check_steps(const CheckedSide& checked, const CheckedSide& reference,
                      const StepCheckOptions& options);

}  // namespace composer
