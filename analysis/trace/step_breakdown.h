// What a training step is made of, on the thread that trains.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/trace/profiler_steps.h"
#include "analysis/trace/trace_event.h"

namespace composer {

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
  other_range,  ///< named, but none of these
  rest,         ///< in no range
};

inline constexpr StepPart all_step_parts[] = {
    StepPart::data_wait,  StepPart::forward,     StepPart::backward, StepPart::optimizer,
    StepPart::algorithm,  StepPart::callback,    StepPart::sync,     StepPart::evaluation,
    StepPart::checkpoint, StepPart::other_range, StepPart::rest};

std::string_view name(StepPart part);

/// The names by which ranges of algorithms and callbacks are known. What else an event calls counts
/// as an algorithm: one of another program.
struct RangeNames {
  std::set<std::string, std::less<>> algorithms, callbacks;
};

/// A part, and of algorithms, callbacks and other ranges the name.
struct PartKey {
  StepPart part = StepPart::rest;
  std::string name;

  auto operator<=>(const PartKey&) const = default;
};

struct TracedStep {
  int64_t number = 0;
  int64_t total_ns = 0;
  std::map<PartKey, int64_t> parts;  ///< nanoseconds, which sum to total_ns

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

/// The steps' time on the thread that marks them: one after another, so that all of it is on the
/// critical path of a step that no device works on. A moment belongs to the outermost range that
/// is a part; but within it, communication is sync, and what events run in the loop's parts is
/// theirs. events[lane]: as host_lanes orders them.
StepBreakdown break_down_steps(const RankTrace& trace, const std::vector<ProfilerStep>& steps,
                               const std::vector<std::vector<uint32_t>>& lanes,
                               const RangeNames& names);

}  // namespace composer
