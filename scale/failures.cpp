#include "scale/failures.h"

#include <cmath>

namespace composer {

double daly_interval(const FailureModel& model) {
  const double c = model.checkpoint, m = model.between_failures;
  if (c >= 2 * m) return m;
  const double x = std::sqrt(c / (2 * m));
  return std::sqrt(2 * c * m) * (1 + x / 3 + x * x / 9) - c;
}

double expected_seconds(double work, double interval, const FailureModel& model) {
  if (work <= 0) return 0;
  // A run shorter than the interval is one piece, saved at its end.
  interval = interval > 0 && interval < work ? interval : work;
  const double pieces = work / interval;
  if (model.between_failures <= 0) return work + pieces * model.checkpoint;
  const double m = model.between_failures;
  return m * std::exp(model.restart / m) * std::expm1((interval + model.checkpoint) / m) * pieces;
}

}  // namespace composer
