// The analysis of a run's traces: rank by rank, and together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace/device_counters.h"
#include "analysis/trace/device_times.h"
#include "analysis/trace/host_times.h"
#include "analysis/trace/trace_reader.h"

namespace composer {

/// What a rank's device did.
struct DeviceAnalysis {
  TemporalBreakdown temporal;
  TypeTimes types;
  std::optional<double> overlap;
  std::vector<StreamIdle> idle;
  std::vector<KernelTime> kernels;
  std::vector<QueueSummary> queues;
  std::vector<CopySummary> copies;
  LaunchStatistics launches;
};

struct RankAnalysis {
  int64_t rank = 0;
  std::string file;
  int64_t bytes = 0;    ///< size of the uncompressed JSON
  int64_t events = 0;   ///< number of events with a duration
  int64_t base_ns = 0;  ///< origin of the file's times
  bool truncated = false;
  bool last_step_dropped = false;  ///< the device analysis leaves out the last step
  std::vector<std::string> warnings;
  std::optional<DeviceAnalysis> device;  ///< empty if no device worked
  StepBreakdown steps;                   ///< empty if the trace marks no steps
  OperatorCosts operators;
  std::vector<ThreadUse> threads;

  double mean_step_ns() const;
};

/// A piece of advice.
struct Advice {
  std::string text;
  double gain = 0;  ///< the most that it could save, as a share of a step's time
};

/// The settings of the run's recipe, if the traces lie in the run's folder.
struct TracedRecipe {
  bool channels_last = false, amp = false;
};

struct TraceAnalysis {
  std::vector<RankAnalysis> ranks;          ///< by rank
  std::vector<std::string> counter_traces;  ///< files written with counters
  std::vector<std::string> left_out;        ///< files of other steps of the same ranks
  std::vector<std::string> warnings;        ///< warnings on more than one rank
  TypeTimes types;                          ///< summed over ranks
  TracedRecipe recipe;
  std::vector<Advice> advice;  ///< at most three, the largest gain first

  /// The rank with the longest mean step, or the first.
  const RankAnalysis& slowest() const;
};

RankAnalysis analyze(const RankTrace& trace, const TraceRules& rules, const RangeNames& names);

/// Reads the traces of find_traces() one after another; only one of them is in memory at a time.
/// UserError if no trace has an event with a duration, a warning if some trace has none. A rank
/// that stands behind a trace's events counts too; UserError if two traces then have the same rank.
/// A warning if the ranks have no step in common. `counters`: the folder for traces with counters
/// (write_counter_trace) of the ranks with a device; empty to write none.
TraceAnalysis analyze_traces(const std::vector<std::filesystem::path>& paths,
                             const TraceRules& rules, const RangeNames& names,
                             const std::filesystem::path& counters = {});

}  // namespace composer
