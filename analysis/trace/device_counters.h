// What changes over a trace's time: the length of streams' queues, and the bandwidth of copies.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/trace/kernel_type.h"
#include "analysis/trace/selection.h"
#include "analysis/trace/statistics.h"

namespace composer {

/// From here on the value is this one.
struct CounterPoint {
  int64_t time_ns = 0;
  double value = 0;
};
using CounterSeries = std::vector<CounterPoint>;

/// By stream, how many launches wait (hta/analyzers/trace_counters.py): one more where the host
/// launches, one less where the device begins.
std::map<int32_t, CounterSeries> queue_lengths(const RankTrace& trace, const Selection& selection);

/// By kind of copy ("Memcpy HtoD"), GB/s from its start to its end; one without duration lasts 1
/// us. Where one ends as another begins, the end comes first; as_hta: last.
std::map<std::string, CounterSeries> copy_bandwidths(const RankTrace& trace,
                                                     const Selection& selection,
                                                     const std::vector<KernelType>& types,
                                                     bool as_hta);

struct QueueSummary {
  int32_t stream = 0;
  Statistics length{};
  int64_t blocked_ns = 0;    ///< with so many waiting that a launch must wait too
  double blocked_share = 0;  ///< of the trace's time
};

std::vector<QueueSummary> queue_summaries(const RankTrace& trace, const Selection& selection,
                                          int64_t capacity);

struct CopySummary {
  std::string kind;
  Statistics gb_per_second;  ///< over the moments of change at which it is not 0
};

/// as_hta: what rounding leaves of no bandwidth counts as one.
std::vector<CopySummary> copy_summaries(const RankTrace& trace, const Selection& selection,
                                        const std::vector<KernelType>& types, bool as_hta);

}  // namespace composer
