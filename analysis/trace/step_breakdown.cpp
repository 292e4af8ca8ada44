#include "analysis/trace/step_breakdown.h"

#include <algorithm>
#include <optional>

#include "composer/loop/event.h"

namespace composer {
namespace {

struct LoopRange {
  std::string_view name;
  StepPart part;
};

// The loop's own (RECORD_USER_SCOPE), and those of PyTorch's Python modules.
constexpr LoopRange loop_ranges[] = {
    {"dataloader", StepPart::data_wait},  {"forward", StepPart::forward},
    {"replay", StepPart::forward},        {"backward", StepPart::backward},
    {"optimizer", StepPart::optimizer},   {"evaluation", StepPart::evaluation},
    {"checkpoint", StepPart::checkpoint}, {"gradient sum", StepPart::sync},
    {"sum over ranks", StepPart::sync},   {"broadcast", StepPart::sync},
    {"gather", StepPart::sync},           {"barrier", StepPart::sync},
};
constexpr LoopRange loop_beginnings[] = {
    {"enumerate(DataLoader)", StepPart::data_wait},
    {"DistributedDataParallel.forward", StepPart::forward},
    {"Optimizer.", StepPart::optimizer},
    {"nccl:", StepPart::sync},
    {"gloo:", StepPart::sync},
};

std::optional<StepPart> part_of_loop(std::string_view name) {
  for (const auto& range : loop_ranges)
    if (range.name == name) return range.part;
  for (const auto& range : loop_beginnings)
    if (name.starts_with(range.name)) return range.part;
  return std::nullopt;
}

bool is_event(std::string_view name) {
  return std::ranges::find(event_names, name) != std::end(event_names);
}

/// A range that is open, and whose its time is.
struct OpenRange {
  int64_t end_ns = 0;
  PartKey key;
  bool of_event = false;
};

/// Whether nothing but communication takes time out of this part.
bool keeps_its_time(StepPart part) {
  return part == StepPart::evaluation || part == StepPart::checkpoint ||
         part == StepPart::algorithm || part == StepPart::callback || part == StepPart::sync;
}

PartKey member_of_event(std::string_view name, const RangeNames& names) {
  const bool callback = names.callbacks.contains(name) && !names.algorithms.contains(name);
  return {callback ? StepPart::callback : StepPart::algorithm, std::string(name)};
}

/// What the time of a range called `name` counts as, directly in `outer` (null: in the step).
OpenRange opened(std::string_view name, const OpenRange* outer, const RangeNames& names) {
  const auto part = part_of_loop(name);
  const auto outer_part = outer == nullptr ? StepPart::rest : outer->key.part;
  const bool free = outer_part == StepPart::rest || outer_part == StepPart::other_range;
  if (part == StepPart::sync) return {0, {StepPart::sync, {}}};
  if (keeps_its_time(outer_part)) return {0, outer->key};
  if (outer != nullptr && outer->of_event) return {0, member_of_event(name, names)};
  if (is_event(name))
    return {0, free ? PartKey{StepPart::other_range, "events"} : outer->key, true};
  if (names.algorithms.contains(name)) return {0, {StepPart::algorithm, std::string(name)}};
  if (!free) return {0, outer->key};
  if (part) return {0, {*part, {}}};
  if (outer != nullptr) return {0, outer->key};
  return {0, {StepPart::other_range, std::string(name)}};
}

/// The time of one step, part by part.
class StepSweep {
 public:
  explicit StepSweep(const ProfilerStep& step) : at_ns_(step.start_ns), end_ns_(step.end_ns) {
    time_.number = step.number;
    time_.total_ns = std::max<int64_t>(0, step.end_ns - step.start_ns);
  }

  void open(const TraceEvent& event, std::string_view name, const RangeNames& names) {
    close_until(event.start_ns);
    auto range = opened(name, open_.empty() ? nullptr : &open_.back(), names);
    range.end_ns = std::min(event.end_ns(), open_.empty() ? end_ns_ : open_.back().end_ns);
    open_.push_back(std::move(range));
  }

  TracedStep take() {
    close_until(end_ns_);
    return std::move(time_);
  }

 private:
  void close_until(int64_t time_ns) {
    while (!open_.empty() && open_.back().end_ns <= time_ns) {
      spend(open_.back().end_ns);
      open_.pop_back();
    }
    spend(time_ns);
  }

  void spend(int64_t until_ns) {
    if (until_ns <= at_ns_) return;
    time_.parts[open_.empty() ? PartKey{} : open_.back().key] += until_ns - at_ns_;
    at_ns_ = until_ns;
  }

  TracedStep time_;
  std::vector<OpenRange> open_;
  int64_t at_ns_, end_ns_;
};

TracedStep break_down(const RankTrace& trace, const ProfilerStep& step,
                      const std::vector<uint32_t>& lane, const RangeNames& names) {
  const auto starts = [&](uint32_t number) { return trace.events[number].start_ns; };
  const auto first = std::ranges::lower_bound(lane, step.start_ns, {}, starts);
  const auto last = std::ranges::lower_bound(lane, step.end_ns, {}, starts);
  StepSweep sweep(step);
  if (step.end_ns <= step.start_ns) return sweep.take();
  for (auto each = first; each != last; ++each) {
    const auto& event = trace.events[*each];
    if (event.category == EventCategory::user_annotation)
      sweep.open(event, trace.name_of(event), names);
  }
  return sweep.take();
}

}  // namespace

std::string_view name(StepPart part) {
  constexpr std::string_view names[] = {"data_wait",  "forward",     "backward", "optimizer",
                                        "algorithm",  "callback",    "sync",     "evaluation",
                                        "checkpoint", "other_range", "rest"};
  return names[static_cast<size_t>(part)];
}

int64_t TracedStep::of(StepPart part) const {
  int64_t ns = 0;
  for (const auto& [key, time] : parts)
    if (key.part == part) ns += time;
  return ns;
}

double StepBreakdown::share(StepPart part) const {
  return sum.total_ns == 0 ? 0 : static_cast<double>(of(part)) / static_cast<double>(sum.total_ns);
}

StepBreakdown break_down_steps(const RankTrace& trace, const std::vector<ProfilerStep>& steps,
                               const std::vector<std::vector<uint32_t>>& lanes,
                               const RangeNames& names) {
  StepBreakdown breakdown;
  for (const auto& step : steps) {
    auto time = break_down(trace, step, lanes[step.lane], names);
    breakdown.sum.total_ns += time.total_ns;
    for (const auto& [key, ns] : time.parts) breakdown.sum.parts[key] += ns;
    breakdown.steps.push_back(std::move(time));
  }
  return breakdown;
}

}  // namespace composer
