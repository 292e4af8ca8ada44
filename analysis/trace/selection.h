// Which events of a trace its analyses look at, which call launched which, and by which rules.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/trace/trace_reader.h"

namespace composer {

struct TraceRules {
  /// All as release 0.5.0 of HolisticTraceAnalysis calculates it, for comparisons with it: times
  /// rounded to microseconds, waits between streams taken for computation, only cudaLaunchKernel's
  /// own calls in launch statistics, and grouped kernels' statistics taken over their sums.
  bool as_hta = false;
  /// Gaps between kernels that the host did not cause are kernel_wait if shorter than this, else
  /// other. HTA's default of 30 is in microseconds.
  int64_t consecutive_kernel_delay_ns = 30'000;
  /// Number of launches that fill a stream's queue; CUDA's holds 1024.
  int64_t queue_capacity = 1024;
  int64_t slow_launch_ns = 50'000;    ///< longer launch calls count as slow
  int64_t launch_delay_ns = 100'000;  ///< starts later after their call count as late
  int64_t most_kernels = 10;          ///< kernels of a type that are listed by name
  double kernel_share = 0.8;  ///< quantile of the running sums past which names are "others"

  TraceTimes times() const { return as_hta ? TraceTimes::rounded_microseconds : TraceTimes::exact; }
};

/// A device's event and the host's call that launched it, as indices into the trace's events.
struct Launched {
  uint32_t event = 0;
  uint32_t call = none;  ///< none if the call is not in the trace

  static constexpr uint32_t none = 0xffffffff;
};

/// The events that HTA keeps (hta/common/trace.py): with two or more ProfilerStep marks, the host's
/// events that begin before the last mark and the device events that they launched; with fewer
/// marks, all events. Marks on device rows count only with as_hta.
struct Selection {
  std::vector<Launched> device;  ///< in the order of the file
  bool last_step_dropped = false;
  int64_t first_start_ns = 0, last_start_ns = 0;  ///< first and last start of the kept events
};

Selection select(const RankTrace& trace, bool as_hta);

/// Whether a call of this name puts work into a stream's queue. as_hta: only the calls that HTA's
/// launch statistics know.
bool launches_work(std::string_view call, bool as_hta);

}  // namespace composer
