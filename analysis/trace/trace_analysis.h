// All that is said of the traces of a run: rank by rank, and together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace/device_counters.h"
#include "analysis/trace/device_times.h"
#include "analysis/trace/host_lanes.h"
#include "analysis/trace/kernel_breakdown.h"
#include "analysis/trace/launch_statistics.h"
#include "analysis/trace/operator_costs.h"
#include "analysis/trace/step_breakdown.h"
#include "analysis/trace/trace_rules.h"

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
  int64_t bytes = 0;    ///< of JSON, uncompressed
  int64_t events = 0;   ///< with a duration
  int64_t base_ns = 0;  ///< what times of the file count from
  bool truncated = false;
  bool last_step_dropped = false;  ///< for what is said of devices
  std::vector<std::string> warnings;
  std::optional<DeviceAnalysis> device;  ///< none where no device worked
  StepBreakdown steps;                   ///< empty where none are marked
  OperatorCosts operators;
  std::vector<ThreadUse> threads;

  double mean_step_ns() const;
};

/// One thing to change, with what it could save at most.
struct Advice {
  std::string text;
  double gain = 0;  ///< of a step's time
};

/// What the run's recipe says, where the traces lie in its folder.
struct TracedRecipe {
  bool channels_last = false, amp = false;
};

struct TraceAnalysis {
  std::vector<RankAnalysis> ranks;          ///< by rank
  std::vector<std::string> counter_traces;  ///< files that were written
  std::vector<std::string> left_out;        ///< traces of the same ranks and other steps
  std::vector<std::string> warnings;        ///< that are of no rank alone
  TypeTimes types;                          ///< summed over ranks
  TracedRecipe recipe;
  std::vector<Advice> advice;  ///< at most three, the largest gain first

  /// The one with the longest mean step, or the first.
  const RankAnalysis& slowest() const;
};

RankAnalysis analyze(const RankTrace& trace, const TraceRules& rules, const RangeNames& names);

/// The traces that find_traces finds, read and reduced one after another: in memory is one of
/// them, and the results of those before. UserError where no trace has an event with a duration, a
/// warning where one has none. A rank that a trace tells behind its events counts too;
/// UserError where two are then of the same. A warning where ranks have no step in common.
/// counters: a folder for traces of the ranks with a device, with counters (write_counter_trace);
/// "": none are written.
TraceAnalysis analyze_traces(const std::vector<std::filesystem::path>& paths,
                             const TraceRules& rules, const RangeNames& names,
                             const std::filesystem::path& counters = {});

/// The changes that would save most, by these numbers. At most three.
std::vector<Advice> advice_for(const TraceAnalysis& analysis);

}  // namespace composer
