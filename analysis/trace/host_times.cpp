#include "analysis/trace/host_times.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "composer/loop/event.h"

namespace composer {
namespace {

/// The number in "ProfilerStep#12".
std::optional<int64_t> number_of_step(std::string_view name) {
  const size_t digits = name.find_first_of("0123456789");
  int64_t number = 0;
  if (digits == std::string_view::npos) return std::nullopt;
  std::from_chars(name.data() + digits, name.data() + name.size(), number);
  return number;
}

using LoopRange = std::pair<std::string_view, StepPart>;

// The loop's own ranges (RECORD_USER_SCOPE), and the ranges of PyTorch's Python modules.
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
  for (const auto& [known, part] : loop_ranges)
    if (known == name) return part;
  for (const auto& [beginning, part] : loop_beginnings)
    if (name.starts_with(beginning)) return part;
  return std::nullopt;
}

/// An open range and the part that its time counts as.
struct OpenRange {
  int64_t end_ns = 0;
  PartKey key;
  bool of_event = false;
};

/// Whether only communication is counted apart inside this part.
bool keeps_its_time(StepPart part) {
  return part == StepPart::evaluation || part == StepPart::checkpoint ||
         part == StepPart::algorithm || part == StepPart::callback || part == StepPart::sync;
}

PartKey member_of_event(std::string_view name, const RangeNames& names) {
  const bool callback = names.callbacks.contains(name) && !names.algorithms.contains(name);
  return {callback ? StepPart::callback : StepPart::algorithm, std::string(name)};
}

/// The part that the time of a range `name` counts as, directly inside `outer` (null: inside the
/// step).
OpenRange opened(std::string_view name, const OpenRange* outer, const RangeNames& names) {
  const auto part = part_of_loop(name);
  const auto outer_part = outer == nullptr ? StepPart::rest : outer->key.part;
  const bool free = outer_part == StepPart::rest || outer_part == StepPart::other_range;
  if (part == StepPart::sync) return {0, {StepPart::sync, {}}};
  if (keeps_its_time(outer_part)) return {0, outer->key};
  if (outer != nullptr && outer->of_event) return {0, member_of_event(name, names)};
  if (std::ranges::find(event_names, name) != std::end(event_names))
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

bool is_host_event(const TraceEvent& event) {
  return !event.on_device() && !event.profiler_step &&
         (event.category == EventCategory::operator_ ||
          event.category == EventCategory::user_annotation ||
          event.category == EventCategory::runtime);
}

std::string label(const TraceLane& lane) {
  if (lane.name.empty()) return "thread " + lane.thread;
  return lane.name.find(lane.thread) == std::string::npos ? lane.name + " (" + lane.thread + ")"
                                                          : lane.name;
}

struct Cost {
  int64_t calls = 0, self_ns = 0, total_ns = 0;

  Cost& operator+=(const Cost& other) {
    calls += other.calls, self_ns += other.self_ns, total_ns += other.total_ns;
    return *this;
  }
};

/// A key of a name and shapes (or no_detail), given as indices into the trace's names.
uint64_t key_of(uint32_t name, uint32_t shapes) { return (uint64_t{name} << 32) | shapes; }
uint32_t name_in(uint64_t key) { return static_cast<uint32_t>(key >> 32); }
uint32_t shapes_in(uint64_t key) { return static_cast<uint32_t>(key); }

using CostTable = std::unordered_map<uint64_t, Cost>;

struct OpenOperator {
  int64_t end_ns = 0;
  uint64_t key = 0;
};

/// Adds the operators of one thread, as they begin.
class ThreadCosts {
 public:
  explicit ThreadCosts(CostTable& costs) : costs_(costs) {}

  void add(const TraceEvent& event) {
    while (!open_.empty() && open_.back().end_ns <= event.start_ns) open_.pop_back();
    const uint64_t key = key_of(event.name, event.detail);
    const int64_t duration_ns =
        std::max<int64_t>(0, event.duration_ns);  // negative when rounded as HTA does
    costs_[key] += {1, duration_ns, duration_ns};
    if (duration_ns == 0) return;
    if (!open_.empty())
      costs_[open_.back().key].self_ns -=
          std::min(event.end_ns(), open_.back().end_ns) - event.start_ns;
    open_.push_back({event.end_ns(), key});
  }

 private:
  CostTable& costs_;
  std::vector<OpenOperator> open_;
};

/// The operators with most self time; at equal times, by name and shapes.
std::vector<OperatorCost> costliest(const CostTable& costs, const NameTable& names) {
  using Entry = CostTable::value_type;
  const auto shapes = [&](const Entry& entry) {
    const auto number = shapes_in(entry.first);
    return number == no_detail ? std::string_view() : names[number];
  };
  const auto place = [&](const Entry* entry) {
    return std::tuple(-entry->second.self_ns, names[name_in(entry->first)], shapes(*entry));
  };
  std::vector<const Entry*> entries;
  entries.reserve(costs.size());
  for (const auto& entry : costs) entries.push_back(&entry);
  const size_t listed = std::min(entries.size(), OperatorCosts::most_rows);
  std::ranges::partial_sort(entries, entries.begin() + static_cast<std::ptrdiff_t>(listed), {},
                            place);
  std::vector<OperatorCost> rows;
  for (size_t i = 0; i < listed; ++i) {
    const auto& [key, cost] = *entries[i];
    rows.push_back({std::string(names[name_in(key)]), std::string(shapes(*entries[i])), cost.calls,
                    cost.self_ns, cost.total_ns});
  }
  return rows;
}

CostTable summed_by_name(const CostTable& costs) {
  CostTable sums;
  for (const auto& [key, cost] : costs) sums[key_of(name_in(key), no_detail)] += cost;
  return sums;
}

bool contains_any(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts,
                             [&](auto part) { return name.find(part) != std::string_view::npos; });
}

void add_to_kinds(std::string_view name, const Cost& cost, OperatorCosts& costs) {
  costs.calls += cost.calls;
  costs.self_ns += cost.self_ns;
  if (contains_any(name, {"aten::copy_", "aten::contiguous", "aten::_to_copy", "aten::clone"}))
    costs.copies_ns += cost.self_ns;
  if (contains_any(name, {"convolution", "mkldnn", "conv2d"}))
    costs.convolutions_ns += cost.self_ns;
  if (contains_any(name, {"batch_norm", "relu", "threshold_backward", "clamp_min", "aten::add",
                          "aten::mul"}))
    costs.pointwise_ns += cost.self_ns;
}

}  // namespace

std::vector<ProfilerStep> profiler_steps(const RankTrace& trace) {
  std::vector<ProfilerStep> steps;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const auto& event = trace.events[i];
    if (!event.profiler_step || !event.on_host()) continue;
    if (const auto number = number_of_step(trace.name_of(event)))
      steps.push_back({*number, event.start_ns, event.end_ns(), event.lane});
  }
  std::ranges::stable_sort(steps, {}, &ProfilerStep::start_ns);
  return steps;
}

const ProfilerStep* step_at(const std::vector<ProfilerStep>& steps, int64_t time_ns) {
  const auto after = std::ranges::upper_bound(steps, time_ns, {}, &ProfilerStep::start_ns);
  if (after == steps.begin()) return nullptr;
  const auto& step = *std::prev(after);
  return time_ns < step.end_ns ? &step : nullptr;
}

std::string_view name(StepPart part) {
  constexpr std::string_view names[step_part_count] = {
      "data_wait", "forward",    "backward",   "optimizer",   "algorithm", "callback",
      "sync",      "evaluation", "checkpoint", "other_range", "rest"};
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

std::vector<std::vector<uint32_t>> host_lanes(const RankTrace& trace) {
  std::vector<std::vector<uint32_t>> lanes(trace.lanes.size());
  for (uint32_t i = 0; i < trace.events.size(); ++i)
    if (is_host_event(trace.events[i])) lanes[trace.events[i].lane].push_back(i);
  const auto earlier = [&](uint32_t one, uint32_t other) {
    const auto &a = trace.events[one], &b = trace.events[other];
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
  };
  for (auto& lane : lanes) std::ranges::stable_sort(lane, earlier);
  return lanes;
}

Window window_of(const RankTrace& trace, const std::vector<ProfilerStep>& steps) {
  Window window{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  const auto add = [&](int64_t start, int64_t end) {
    window.start_ns = std::min(window.start_ns, start);
    window.end_ns = std::max(window.end_ns, end);
  };
  for (const auto& step : steps) add(step.start_ns, step.end_ns);
  if (steps.empty())
    for (size_t i = 0; i < trace.events.size(); ++i)
      if (is_host_event(trace.events[i])) add(trace.events[i].start_ns, trace.events[i].end_ns());
  return window.start_ns > window.end_ns ? Window{} : window;
}

std::vector<ThreadUse> thread_use(const RankTrace& trace,
                                  const std::vector<std::vector<uint32_t>>& lanes,
                                  const Window& window) {
  const int64_t span = window.end_ns - window.start_ns;
  std::vector<ThreadUse> threads;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    ThreadUse use{label(trace.lanes[lane])};
    int64_t seen = window.start_ns;
    for (const uint32_t number : lanes[lane]) {
      const auto& event = trace.events[number];
      if (event.end_ns() <= window.start_ns || event.start_ns >= window.end_ns) continue;
      ++use.events;
      const int64_t end = std::min(event.end_ns(), window.end_ns);
      use.busy_ns += std::max<int64_t>(0, end - std::max(seen, event.start_ns));
      seen = std::max(seen, end);
    }
    if (use.events == 0 || span <= 0) continue;
    use.idle_share = 1 - static_cast<double>(use.busy_ns) / static_cast<double>(span);
    threads.push_back(std::move(use));
  }
  std::ranges::stable_sort(threads, std::greater(), &ThreadUse::busy_ns);
  return threads;
}

OperatorCosts operator_costs(const RankTrace& trace,
                             const std::vector<std::vector<uint32_t>>& lanes,
                             const Window& window) {
  CostTable by_shapes;
  for (const auto& lane : lanes) {
    ThreadCosts thread(by_shapes);
    for (const uint32_t number : lane) {
      const auto& event = trace.events[number];
      if (event.category == EventCategory::operator_ && event.start_ns >= window.start_ns &&
          event.start_ns < window.end_ns)
        thread.add(event);
    }
  }
  OperatorCosts costs;
  costs.by_shapes = costliest(by_shapes, trace.names);
  const auto by_name = summed_by_name(by_shapes);
  costs.by_name = costliest(by_name, trace.names);
  for (const auto& [key, cost] : by_name) add_to_kinds(trace.names[name_in(key)], cost, costs);
  return costs;
}

}  // namespace composer
