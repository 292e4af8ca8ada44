#include "scale/step_time.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace composer {
namespace {

/// Where the normal distribution reaches p, by Newton's method.
double normal_quantile(double p) {
  double x = 0;
  for (int i = 0; i < 100; ++i) {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double step = (std::erfc(-x / std::numbers::sqrt2) / 2 - p) / density;
    x -= std::clamp(step, -1.0, 1.0);
    if (std::abs(step) < 1e-12) break;
  }
  return x;
}

}  // namespace

double expected_largest(int64_t n) {
  if (n < 2) return 0;
  return normal_quantile((static_cast<double>(n) - 0.375) / (static_cast<double>(n) + 0.25));
}

StepTime step_time(const StepParts& parts, const Cluster& cluster, bool overlap,
                   double load_seconds, double spread) {
  const double slowest = 1 + spread * expected_largest(cluster.gpus);
  StepTime time;
  time.compute = parts.seconds() * slowest;
  const double forward = parts.forward * slowest, backward = parts.backward * slowest;
  double end = forward + backward;
  if (cluster.gpus > 1) {
    double free = 0;
    for (const auto& bucket : parts.buckets) {
      const double ready = overlap ? forward + bucket.ready * backward : forward + backward;
      const double takes = all_reduce_seconds(bucket.bytes, cluster);
      time.communication += takes;
      free = std::max(free, ready) + takes;
    }
    time.exposed = std::max(0.0, free - end);
  }
  const double work = time.compute + time.exposed;
  time.seconds = std::max(work, load_seconds);
  time.loading = time.seconds - work;
  return time;
}

}  // namespace composer
