#include "composer/profiling/trace_options.h"

namespace composer {

TraceAction scheduled_action(const TraceSchedule& schedule, int64_t step) {
  const int64_t cycle = schedule.wait + schedule.warmup + schedule.active;
  if (schedule.active == 0 || step < schedule.skip_first) return TraceAction::none;
  step -= schedule.skip_first;
  if (schedule.repeat > 0 && step / cycle >= schedule.repeat) return TraceAction::none;
  const int64_t place = step % cycle;
  if (place < schedule.wait) return TraceAction::none;
  if (place < schedule.wait + schedule.warmup) return TraceAction::warmup;
  return place == cycle - 1 ? TraceAction::record_and_save : TraceAction::record;
}

}  // namespace composer
