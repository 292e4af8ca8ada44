// The cost of failures to a run that resumes from checkpoints.
#pragma once

namespace composer {

/// Times in seconds.
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
