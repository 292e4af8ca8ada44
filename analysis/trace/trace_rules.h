// Where analyses of traces may differ: what is asked for, and whose rules decide.
#pragma once

#include <cstdint>

#include "analysis/trace/trace_reader.h"

namespace composer {

struct TraceRules {
  /// All as release 0.5.0 of HolisticTraceAnalysis calculates it, for comparisons with it: times
  /// rounded to microseconds, waits between streams taken for computation, only cudaLaunchKernel's
  /// own calls in launch statistics, and grouped kernels' statistics taken over their sums.
  bool as_hta = false;
  /// Shorter gaps between kernels that the host did not cause are kernel_wait, longer ones other.
  /// HTA's default of 30 means microseconds, the unit of its times.
  int64_t consecutive_kernel_delay_ns = 30'000;
  /// A stream's queue is full with so many launches; CUDA's holds 1024.
  int64_t queue_capacity = 1024;
  int64_t slow_launch_ns = 50'000;    ///< calls that take longer are counted
  int64_t launch_delay_ns = 100'000;  ///< starts that come later after their call are counted
  int64_t most_kernels = 10;          ///< that are listed by name
  double kernel_share = 0.8;          ///< quantile of the running sum past which names are others

  TraceTimes times() const { return as_hta ? TraceTimes::rounded_microseconds : TraceTimes::exact; }
};

}  // namespace composer
