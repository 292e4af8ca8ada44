// Two ways to train a network, side by side on the same batches.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "composer/comparison/deviation.h"
#include "composer/run/trainer.h"

namespace composer {

/// One of the two ways.
struct CheckedSide {
  /// The same network, seed and methods on both sides, and nothing left on the disk. The reference
  /// has a train_loader; the other trains on the batches that this one gave.
  std::function<TrainerParts()> parts;
  /// Made before the side is trained and kept meanwhile; may be empty.
  std::function<std::shared_ptr<void>()> scope;
};

struct StepCheckOptions {
  int64_t steps = 3;
  int64_t free_steps = 0;  ///< after these, in which each side goes on by itself
};

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
