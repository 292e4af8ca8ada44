// A training step of many GPUs: what one GPU computes, sends and waits for, and how long it takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "scale/collective.h"
#include "scale/step_work.h"

namespace composer {

/// A stage begins transfers, waits for transfers, then computes. Transfers of all GPUs go one after
/// another in the order in which they begin; row transfers do the same in a lane of their own.
struct Stage {
  std::vector<Transfer> begins{};
  /// The number of transfers of all GPUs, from the step's first on, that must have ended. Row
  /// transfers are waited for in the stage that begins them.
  int64_t waits_for = 0;
  double compute = 0;  ///< seconds
};

/// The stages of a step. With `overlap`, transfers go on while the GPU computes: buckets of
/// gradients once they are ready; a unit's weights while the unit before it computes, its gradients
/// while the next unit does (ShardedParameters). Without it, passes stop for transfers. A single
/// GPU sends nothing.
std::vector<Stage> stages_of(const StepParts& parts, const Cluster& cluster, bool overlap);

/// Times in seconds.
struct StepTime {
  double compute = 0;
  double communication = 0;  ///< all transfers
  double weights = 0;        ///< the part of it that sends weights from their owners
  double rows = 0;           ///< the part of it between GPUs that share images
  double exposed = 0;        ///< the part of `communication` that arithmetic waits for
  double loading = 0;        ///< wait for data
  double seconds = 0;

  double hidden_fraction() const {
    return communication > 0 ? std::max(0.0, 1 - exposed / communication) : 1;
  }
};

/// The measured step of a run of one process.
struct MeasuredStep {
  double images = 0;
  double forward = 0, backward = 0, rest = 0;  ///< seconds
  double loading = 0;                          ///< seconds in which the process itself loads images
  std::string source;
};

/// The time of the stages of stages_of() on equally fast GPUs. `load_seconds`: a GPU's loader's
/// time for a batch, during the step before. `spread`: standard deviation of a GPU's time, as a
/// share of it.
StepTime step_time(const StepParts& parts, const Cluster& cluster, bool overlap = true,
                   double load_seconds = 0, double spread = 0);

/// The time of a step's forward passes alone.
double forward_seconds(const StepParts& parts, const Cluster& cluster, bool overlap = true);

/// The expected largest of n normal draws, in standard deviations (Blom 1958).
double expected_largest(int64_t n);

/// The cost of failures to a run that resumes from checkpoints. Times in seconds.
struct FailureModel {
  double between_failures = 0;  ///< mean time between failures of the whole job; 0: no failures
  double checkpoint = 0;        ///< time for which a checkpoint stops training
  double restart = 0;           ///< time from a failure until training resumes
};

/// The checkpoint interval of least expected time, to a higher order (Daly 2006, equation 37).
double daly_interval(const FailureModel& model);

/// Expected seconds of `work` seconds of training with a checkpoint after each `interval` of them,
/// with failures at any time and restarts included (Daly 2006, equation 20):
/// M e^(R/M) (e^((interval + C)/M) - 1) work / interval.
double expected_seconds(double work, double interval, const FailureModel& model);

}  // namespace composer
