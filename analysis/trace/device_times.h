// What devices did with their time: busy and idle, kernels by type and name, launches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/trace/trace_reader.h"

namespace composer {

struct Statistics {
  int64_t count = 0;
  double mean = 0, deviation = 0;  ///< deviation: sample (count - 1); 0 for fewer than two values
  double min = 0, quarter = 0, median = 0, three_quarters = 0, max = 0;
};

/// All zero without values.
Statistics statistics_of(std::vector<double> values);

/// The quantile `share`, in [0, 1], by linear interpolation. `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double share);

enum class KernelType : uint8_t { computation, communication, memory, other };

std::string_view name(KernelType type);

/// The type by HTA's name patterns (hta/common/types.py); as_hta: by the patterns of its release
/// 0.5.0 (hta/utils/utils.py).
KernelType kernel_type(std::string_view kernel, bool as_hta);

/// The type of each of a trace's names.
std::vector<KernelType> kernel_types(const NameTable& names, bool as_hta);

/// "Memset", "Memcpy HtoD" and its kin, or "Memcpy Unknown".
std::string copy_kind(std::string_view kernel);

/// The kernel's name without template arguments, arguments and return type; copies stay as they
/// are.
std::string short_name(std::string_view name);

struct Interval {
  int64_t start = 0, end = 0;
};

/// The union of the intervals as disjoint intervals in order.
std::vector<Interval> merged(std::vector<Interval> intervals);

/// The parts of the span from a device's first event to the end of its last
/// (hta/analyzers/breakdown_analysis.py, get_temporal_breakdown).
struct TemporalBreakdown {
  int64_t span_ns = 0;
  int64_t idle_ns = 0;         ///< time in which nothing runs
  int64_t compute_ns = 0;      ///< time in which computation runs
  int64_t non_compute_ns = 0;  ///< time in which only copies or communication run
};

/// The time in which exactly a combination of kernel types runs, indexed by flags: 1 computation, 2
/// communication, 4 memory (get_gpu_kernel_breakdown).
struct TypeTimes {
  std::vector<int64_t> without_memory;  ///< 4 entries; memory operations are ignored
  std::vector<int64_t> with_memory;     ///< 8 entries
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
  /// The share of the communication's time in which computation runs too
  /// (hta/analyzers/communication_analysis.py); nothing without communication.
  std::optional<double> overlap() const;

 private:
  std::vector<Interval> all_;
  std::vector<std::vector<Interval>> by_type_;  ///< computation, communication, memory
};

/// By stream.
std::vector<StreamIdle> idle_times(const RankTrace& trace, const Selection& selection,
                                   int64_t consecutive_kernel_delay_ns);

/// The kernels of one name and type.
struct KernelTime {
  std::string name;  ///< "others" sums up the kernels that are not listed
  KernelType type = KernelType::computation;
  int64_t calls = 0;
  int64_t sum_ns = 0;
  double max_ns = 0, min_ns = 0, mean_ns = 0, deviation_ns = 0;  ///< times of one call
};

/// Ordered by type, then by sum from the largest (hta/analyzers/breakdown_analysis.py,
/// _aggr_gpu_kernel_time). If a type has more than rules.most_kernels names, the names after that
/// many, and those whose running sum lies past the quantile rules.kernel_share of the running sums,
/// are "others". With rules.as_hta the statistics of such a type are taken over the sums by name.
std::vector<KernelTime> kernel_breakdown(const RankTrace& trace, const Selection& selection,
                                         const std::vector<KernelType>& types,
                                         const TraceRules& rules);

/// Statistics in nanoseconds over all device work whose call is in the trace
/// (hta/analyzers/cuda_kernel_analysis.py, cuda_kernel_launch_stats).
struct LaunchStatistics {
  Statistics call;          ///< the host's call
  Statistics work;          ///< the device's work
  Statistics delay;         ///< from the end of the call to the start of the work, at least 0
  int64_t short_work = 0;   ///< pieces of work shorter than their call
  int64_t slow_calls = 0;   ///< number of calls longer than rules.slow_launch_ns
  int64_t late_starts = 0;  ///< number of starts delayed by more than rules.launch_delay_ns
};

LaunchStatistics launch_statistics(const RankTrace& trace, const Selection& selection,
                                   const TraceRules& rules);

}  // namespace composer
