// What failures cost a run that goes on from checkpoints.
#pragma once

namespace composer {

/// Seconds.
struct FailureModel {
  double between_failures = 0;  ///< of the whole job, on average; 0: none happen
  double checkpoint = 0;        ///< that a checkpoint holds training up
  double restart = 0;           ///< from a failure until training goes on
};

/// sqrt(2 checkpoint between_failures): Young 1974.
double young_interval(const FailureModel& model);

/// The interval of least expected time, to a higher order (Daly 2006, equation 37).
double daly_interval(const FailureModel& model);

/// Expected seconds of `work` seconds of training with a checkpoint after each `interval` of them,
/// failures coming at any time, restarts included: Daly 2006, equation 20,
/// M e^(R/M) (e^((interval + C)/M) - 1) work / interval.
double expected_seconds(double work, double interval, const FailureModel& model);

}  // namespace composer
