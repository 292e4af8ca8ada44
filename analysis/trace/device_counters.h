// What changes over a trace: queue lengths and copy bandwidths, summed up or drawn in a copy of the
// trace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "analysis/trace/device_times.h"
#include "analysis/trace/trace_reader.h"

namespace composer {

/// The value that a counter has from `time_ns` on.
struct CounterPoint {
  int64_t time_ns = 0;
  double value = 0;
};
using CounterSeries = std::vector<CounterPoint>;

struct QueueSummary {
  int32_t stream = 0;
  Statistics length{};
  int64_t blocked_ns = 0;    ///< time with a full queue, in which a launch must wait too
  double blocked_share = 0;  ///< blocked_ns as a share of the trace's time
};

std::vector<QueueSummary> queue_summaries(const RankTrace& trace, const Selection& selection,
                                          int64_t capacity);

struct CopySummary {
  std::string kind;
  Statistics gb_per_second;  ///< over the moments of change with a bandwidth above 0
};

/// as_hta: rounding errors of an idle link count as bandwidth.
std::vector<CopySummary> copy_summaries(const RankTrace& trace, const Selection& selection,
                                        const std::vector<KernelType>& types, bool as_hta);

/// Writes the events of `trace`'s file again to `path`, uncompressed, and behind them counters
/// (Perfetto draws them as curves): "Queue Length" of each stream and "Memcpy BW" of each kind of
/// copy, as HTA's generate_trace_with_counters does. UserError if the trace is truncated or the
/// folder cannot be made; RunError if the file cannot be written.
void write_counter_trace(const RankTrace& trace, const Selection& selection,
                         const TraceRules& rules, const std::filesystem::path& path);

/// The trace's file name with "_with_counters" in `folder`; with the rank too if that path is among
/// `taken`.
std::filesystem::path counter_trace_path(const RankTrace& trace,
                                         const std::filesystem::path& folder,
                                         const std::vector<std::string>& taken);

}  // namespace composer
