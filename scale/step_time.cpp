#include "scale/step_time.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "scale/stages.h"

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

/// Seconds of the stages, the GPU's own times being `slower` times as long; adds to `time` what
/// they consist of.
double walk(const std::vector<Stage>& stages, const Cluster& cluster, double slower,
            StepTime& time) {
  double now = 0;
  std::vector<double> ended;  // of the transfers of all GPUs
  for (const auto& stage : stages) {
    double ready = now;
    for (const auto& transfer : stage.begins) {
      const double takes = transfer_seconds(transfer, cluster);
      time.communication += takes;
      if (transfer.kind == Transfer::Kind::weights) time.weights += takes;
      if (transfer.kind == Transfer::Kind::rows) {
        time.rows += takes;
        ready += takes;
      } else {
        ended.push_back(std::max(ended.empty() ? 0 : ended.back(), now) + takes);
      }
    }
    if (stage.waits_for > 0)
      ready = std::max(ready, ended[static_cast<size_t>(stage.waits_for) - 1]);
    time.exposed += ready - now;
    time.compute += stage.compute * slower;
    now = ready + stage.compute * slower;
  }
  return now;
}

}  // namespace

double expected_largest(int64_t n) {
  if (n < 2) return 0;
  return normal_quantile((static_cast<double>(n) - 0.375) / (static_cast<double>(n) + 0.25));
}

StepTime step_time(const StepParts& parts, const Cluster& cluster, bool overlap,
                   double load_seconds, double spread) {
  StepTime time;
  const double work = walk(stages_of(parts, cluster, overlap), cluster,
                           1 + spread * expected_largest(cluster.gpus), time);
  time.seconds = std::max(work, load_seconds);
  time.loading = time.seconds - work;
  return time;
}

double forward_seconds(const StepParts& parts, const Cluster& cluster, bool overlap) {
  StepTime time;
  return walk(forward_stages(parts, cluster, overlap), cluster, 1, time);
}

}  // namespace composer
