// What the threads of the host did: the steps that a trace marks and their parts, operators,
// threads.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/trace/trace_reader.h"

namespace composer {

struct ProfilerStep {
  int64_t number = 0;
  int64_t start_ns = 0, end_ns = 0;
  uint16_t lane = 0;
};

/// The host's steps, by start.
std::vector<ProfilerStep> profiler_steps(const RankTrace& trace);

/// The step in which `time_ns` lies; null if there is none.
const ProfilerStep* step_at(const std::vector<ProfilerStep>& steps, int64_t time_ns);

enum class StepPart : uint8_t {
  data_wait,
  forward,
  backward,
  optimizer,
  algorithm,
  callback,
  sync,  ///< communication with other ranks
  evaluation,
  checkpoint,
  other_range,  ///< a named range of another kind
  rest,         ///< time in no range
};

inline constexpr size_t step_part_count = 11;

std::string_view name(StepPart part);

/// The names of algorithms and callbacks as their ranges have them. Any other range inside an event
/// counts as an algorithm, of another program.
struct RangeNames {
  std::set<std::string, std::less<>> algorithms, callbacks;
};

/// A part; for algorithms, callbacks and other ranges with the name.
struct PartKey {
  StepPart part = StepPart::rest;
  std::string name;

  auto operator<=>(const PartKey&) const = default;
};

struct TracedStep {
  int64_t number = 0;
  int64_t total_ns = 0;
  std::map<PartKey, int64_t> parts;  ///< nanoseconds; they sum to total_ns

  int64_t of(StepPart part) const;
};

/// All steps, and their sum.
struct StepBreakdown {
  std::vector<TracedStep> steps;
  TracedStep sum;

  int64_t of(StepPart part) const { return sum.of(part); }
  double share(StepPart part) const;
  /// The share of the steps' time that ranges name.
  double coverage() const { return 1 - share(StepPart::rest); }
};

/// The steps' time on the thread that marks them, which is the critical path of a step without a
/// device. A moment belongs to the outermost range that is a part, except that communication inside
/// it is sync, and algorithms and callbacks that an event runs inside the loop's parts keep their
/// own time. lanes[step.lane]: as host_lanes() orders them.
StepBreakdown break_down_steps(const RankTrace& trace, const std::vector<ProfilerStep>& steps,
                               const std::vector<std::vector<uint32_t>>& lanes,
                               const RangeNames& names);

/// For each lane of the trace, the indices of its operators, ranges and runtime calls, ordered by
/// start and, at equal starts, from the longest. Step marks are left out.
std::vector<std::vector<uint32_t>> host_lanes(const RankTrace& trace);

/// From the first mark of a step to the end of the last; without marks, all host events.
struct Window {
  int64_t start_ns = 0, end_ns = 0;
};
Window window_of(const RankTrace& trace, const std::vector<ProfilerStep>& steps);

/// The share of the window in which a thread has an event.
struct ThreadUse {
  std::string thread;  ///< the thread's name, or its number
  int64_t events = 0;
  int64_t busy_ns = 0;
  double idle_share = 0;
};

/// The threads with events in the window, the busiest first.
std::vector<ThreadUse> thread_use(const RankTrace& trace,
                                  const std::vector<std::vector<uint32_t>>& lanes,
                                  const Window& window);

struct OperatorCost {
  std::string name;
  std::string shapes;  ///< the inputs' shapes if the trace has them; empty in sums by name
  int64_t calls = 0;
  int64_t self_ns = 0;   ///< time without inner operators
  int64_t total_ns = 0;  ///< time with inner operators
};

/// The operators (cpu_op) of all threads that begin in a window. If an operator overlaps the one
/// before without lying in it, only their common time is taken from the self time of the one
/// before.
struct OperatorCosts {
  static constexpr size_t most_rows = 50;

  int64_t calls = 0, self_ns = 0;  ///< sums over all operators
  /// The self time of conversions and copies, of convolutions, and of normalisation, activation and
  /// arithmetic, known by their names.
  int64_t copies_ns = 0, convolutions_ns = 0, pointwise_ns = 0;
  std::vector<OperatorCost> by_name, by_shapes;  ///< up to most_rows, by self time from the most
};

OperatorCosts operator_costs(const RankTrace& trace,
                             const std::vector<std::vector<uint32_t>>& lanes, const Window& window);

}  // namespace composer
