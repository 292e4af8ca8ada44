#include "data/loading/read_ahead.h"

#include <algorithm>
#include <cmath>

#include "data/loading/ranges_ahead.h"
#include "data/loading/samples_ahead.h"

namespace composer {

double moved_wait(double mean, double wait, const ReadAheadLimits& limits, int weight) {
  return mean + (std::clamp(wait, 0.0, 4 * std::abs(limits.quick)) - mean) / weight;
}

std::unique_ptr<ReadAhead> make_read_ahead(const ReadAheadPlan& plan, const Sampler& sampler,
                                           const LoaderOptions& options, int64_t batches,
                                           bool all_epochs) {
  switch (plan.source.arrival()) {
    case Arrival::by_sample:
      return std::make_unique<SamplesAhead>(plan, sampler, options, batches, all_epochs);
    case Arrival::by_range:
      return std::make_unique<RangesAhead>(plan, sampler, options, batches, all_epochs);
    case Arrival::in_memory:
      break;
  }
  return nullptr;
}

}  // namespace composer
