// What launching work on a device costs.
#pragma once

#include <cstdint>

#include "analysis/trace/selection.h"
#include "analysis/trace/statistics.h"

namespace composer {

/// Over all work whose call is in the trace (hta/analyzers/cuda_kernel_analysis.py,
/// cuda_kernel_launch_stats). In nanoseconds.
struct LaunchStatistics {
  Statistics call;          ///< the host's call
  Statistics work;          ///< the device's work
  Statistics delay;         ///< from the end of the call to the start of the work, at least 0
  int64_t short_work = 0;   ///< shorter than its call
  int64_t slow_calls = 0;   ///< longer than rules.slow_launch_ns
  int64_t late_starts = 0;  ///< delayed by more than rules.launch_delay_ns
};

LaunchStatistics launch_statistics(const RankTrace& trace, const Selection& selection,
                                   const TraceRules& rules);

}  // namespace composer
