#include "composer/recipe/trace_options.h"

#include <limits>

namespace composer {
namespace {

/// Of numbers from 0 on; the largest number where it is beyond that.
int64_t bounded_sum(int64_t a, int64_t b) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  return a > most - b ? most : a + b;
}

}  // namespace

TraceAction scheduled_action(const TraceSchedule& schedule, int64_t step) {
  const int64_t untraced = bounded_sum(schedule.wait, schedule.warmup);
  const int64_t cycle = bounded_sum(untraced, schedule.active);
  if (schedule.active == 0 || step < schedule.skip_first) return TraceAction::none;
  step -= schedule.skip_first;
  if (schedule.repeat > 0 && step / cycle >= schedule.repeat) return TraceAction::none;
  const int64_t place = step % cycle;
  if (place < schedule.wait) return TraceAction::none;
  if (place < untraced) return TraceAction::warmup;
  return place == cycle - 1 ? TraceAction::record_and_save : TraceAction::record;
}

}  // namespace composer
