// What devices did with their time: HTA's temporal breakdown, idle time and kernels by type.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/trace/intervals.h"
#include "analysis/trace/kernel_type.h"
#include "analysis/trace/selection.h"

namespace composer {

/// The parts of the span from a device's first event to the end of its last
/// (hta/analyzers/breakdown_analysis.py, get_temporal_breakdown).
struct TemporalBreakdown {
  int64_t span_ns = 0;
  int64_t idle_ns = 0;         ///< nothing runs
  int64_t compute_ns = 0;      ///< computation runs
  int64_t non_compute_ns = 0;  ///< only other things run
};

/// For each combination of types, the time in which exactly these run: by flags 1 computation,
/// 2 communication, 4 memory (get_gpu_kernel_breakdown).
struct TypeTimes {
  std::vector<int64_t> without_memory;  ///< 4; memory's time counts as what runs beside it
  std::vector<int64_t> with_memory;     ///< 8
};

/// Why a stream had nothing to run (get_idle_time_breakdown): gaps between its kernels, copies and
/// fills, by whether the launch came too late (host_wait), or else the gap is shorter than the
/// usual delay between kernels (kernel_wait), or longer (other).
struct StreamIdle {
  int32_t stream = 0;
  int64_t host_wait_ns = 0, kernel_wait_ns = 0, other_ns = 0;

  int64_t total_ns() const { return host_wait_ns + kernel_wait_ns + other_ns; }
};

class DeviceTimes {
 public:
  DeviceTimes(const RankTrace& trace, const Selection& selection,
              const std::vector<KernelType>& types);

  TemporalBreakdown temporal() const;
  TypeTimes by_type() const;
  /// Of the time of communication, the share in which computation runs too
  /// (hta/analyzers/communication_analysis.py); none without communication.
  std::optional<double> overlap() const;

 private:
  std::vector<Interval> all_;
  std::vector<std::vector<Interval>> by_type_;  ///< computation, communication, memory
};

/// By stream.
std::vector<StreamIdle> idle_times(const RankTrace& trace, const Selection& selection,
                                   int64_t consecutive_kernel_delay_ns);

}  // namespace composer
