// How far the steps of two runs are from each other.
#pragma once

#include <string>
#include <vector>

#include "composer/comparison/step_record.h"
#include "nn/network/precision.h"

namespace composer {

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

/// A step, the one it is held against, and what both began with.
struct StepPair {
  const StepRecord& checked;
  const StepRecord& reference;
  const TrainedState& before;
  bool overflowed = false;  ///< loss scaling skipped it: gradients and weights say nothing
};

/// Loss, logits, gradients, weights, statistics, in this order. Errors are
/// norm(difference) / norm(reference); of weights and statistics less what float32 rounds, over the
/// norm of what the step changed; of gradients and statistics less the noise.
std::vector<Deviation> deviations(const std::vector<StepPair>& steps, const Tolerances& tolerances);

}  // namespace composer
