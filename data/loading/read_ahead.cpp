#include "data/loading/read_ahead.h"

#include <algorithm>
#include <cmath>

namespace composer {

double moved_wait(double mean, double wait, const ReadAheadLimits& limits, int weight) {
  return mean + (std::clamp(wait, 0.0, 4 * std::abs(limits.quick)) - mean) / weight;
}

std::unique_ptr<ReadAhead> make_read_ahead(const ReadAheadPlan& plan) {
  switch (plan.source.arrival()) {
    case Arrival::by_sample:
      return make_samples_ahead(plan);
    case Arrival::by_range:
      return make_ranges_ahead(plan);
    case Arrival::in_memory:
      break;
  }
  return nullptr;
}

}  // namespace composer
