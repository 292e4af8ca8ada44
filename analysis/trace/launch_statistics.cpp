#include "analysis/trace/launch_statistics.h"

#include <algorithm>

namespace composer {

LaunchStatistics launch_statistics(const RankTrace& trace, const Selection& selection,
                                   const TraceRules& rules) {
  LaunchStatistics result;
  std::vector<double> calls, works, delays;
  for (const auto& launched : selection.device) {
    if (launched.call == Launched::none) continue;
    const auto& call = trace.events[launched.call];
    if (!launches_work(trace.name_of(call), rules.as_hta)) continue;
    const auto& work = trace.events[launched.event];
    const int64_t delay = std::max<int64_t>(0, work.start_ns - call.end_ns());
    calls.push_back(static_cast<double>(call.duration_ns));
    works.push_back(static_cast<double>(work.duration_ns));
    delays.push_back(static_cast<double>(delay));
    if (work.duration_ns < call.duration_ns) ++result.short_work;
    if (call.duration_ns > rules.slow_launch_ns) ++result.slow_calls;
    if (delay > rules.launch_delay_ns) ++result.late_starts;
  }
  result.call = statistics_of(std::move(calls));
  result.work = statistics_of(std::move(works));
  result.delay = statistics_of(std::move(delays));
  return result;
}

}  // namespace composer
