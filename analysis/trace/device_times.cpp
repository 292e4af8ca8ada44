#include "analysis/trace/device_times.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace composer {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](auto each) { return text.starts_with(each); });
}

bool moves_memory(std::string_view kernel) {
  return starts_with_any(kernel, {"Memcpy", "Memset", "hipMemcpy", "hipMemset", "dma"});
}

KernelType type_of_release(std::string_view kernel) {
  if (kernel.starts_with("nccl") && contains(kernel, "Kernel")) return KernelType::communication;
  if (starts_with_any(kernel, {"Memcpy", "Memset", "dma"})) return KernelType::memory;
  return contains(kernel, "Memcpy") || contains(kernel, "Sync") ? KernelType::other
                                                                : KernelType::computation;
}

bool launches_by_cuda(std::string_view kernel) {
  return kernel.starts_with("cuda") && contains(kernel, "LaunchKernel");
}

bool is_work(const TraceEvent& event) {
  return event.category == EventCategory::kernel || event.category == EventCategory::memcpy ||
         event.category == EventCategory::memset;
}

StreamIdle idle_of_stream(const RankTrace& trace, std::vector<Launched> work, int32_t stream,
                          int64_t delay_ns) {
  std::ranges::stable_sort(work, {},
                           [&](const Launched& each) { return trace.events[each.event].start_ns; });
  StreamIdle idle{stream};
  for (size_t i = 1; i < work.size(); ++i) {
    const int64_t free = trace.events[work[i - 1].event].end_ns();
    const int64_t gap = trace.events[work[i].event].start_ns - free;
    const bool launched_late =
        work[i].call != Launched::none && trace.events[work[i].call].start_ns > free;
    (launched_late    ? idle.host_wait_ns
     : gap < delay_ns ? idle.kernel_wait_ns
                      : idle.other_ns) += gap;
  }
  return idle;
}

/// Durations so far, by Welford's method.
class Durations {
 public:
  void add(int64_t ns) {
    ++calls_;
    sum_ns_ += ns;
    const auto value = static_cast<double>(ns);
    max_ = std::max(max_, value);
    min_ = std::min(min_, value);
    const double from_mean = value - mean_;
    mean_ += from_mean / static_cast<double>(calls_);
    squares_ += from_mean * (value - mean_);
  }

  /// Adds the durations of `other` (Chan et al. 1979).
  void add(const Durations& other) {
    const auto mine = static_cast<double>(calls_), theirs = static_cast<double>(other.calls_);
    const double apart = other.mean_ - mean_;
    squares_ += other.squares_ + apart * apart * mine * theirs / (mine + theirs);
    mean_ += apart * theirs / (mine + theirs);
    calls_ += other.calls_;
    sum_ns_ += other.sum_ns_;
    max_ = std::max(max_, other.max_);
    min_ = std::min(min_, other.min_);
  }

  int64_t calls() const { return calls_; }
  int64_t sum_ns() const { return sum_ns_; }

  KernelTime as(std::string name, KernelType type) const {
    const double deviation = calls_ < 2 ? 0 : std::sqrt(squares_ / static_cast<double>(calls_ - 1));
    return {std::move(name), type, calls_, sum_ns_, max_, min_, mean_, deviation};
  }

 private:
  int64_t calls_ = 0, sum_ns_ = 0;
  double max_ = std::numeric_limits<double>::lowest(), min_ = std::numeric_limits<double>::max();
  double mean_ = 0, squares_ = 0;
};

struct NamedDurations {
  uint32_t name = 0;
  Durations durations;
};

/// The number of names, by sum from the largest, that are listed.
size_t names_listed(const std::vector<NamedDurations>& by_sum, const TraceRules& rules) {
  const auto most = static_cast<size_t>(rules.most_kernels);
  if (by_sum.size() <= most) return by_sum.size();
  std::vector<double> running;
  for (const auto& each : by_sum)
    running.push_back((running.empty() ? 0 : running.back()) +
                      static_cast<double>(each.durations.sum_ns()));
  const double past = quantile(running, rules.kernel_share);
  const auto small = std::ranges::upper_bound(running, past) - running.begin();
  return std::min(most, static_cast<size_t>(small));
}

/// Appends the rows of one type.
void append(const RankTrace& trace, KernelType type, std::vector<NamedDurations> kernels,
            const TraceRules& rules, std::vector<KernelTime>& rows) {
  std::ranges::stable_sort(kernels, std::greater(),
                           [](const auto& each) { return each.durations.sum_ns(); });
  const size_t listed = names_listed(kernels, rules);
  const bool over_sums = rules.as_hta && static_cast<int64_t>(kernels.size()) > rules.most_kernels;
  Durations others;
  for (size_t i = 0; i < kernels.size(); ++i) {
    Durations durations = kernels[i].durations;
    if (over_sums) durations = {}, durations.add(kernels[i].durations.sum_ns());
    if (i < listed)
      rows.push_back(durations.as(std::string(trace.names[kernels[i].name]), type));
    else
      others.add(durations);
  }
  if (listed < kernels.size()) rows.push_back(others.as("others", type));
}

int64_t total_length(const std::vector<Interval>& intervals) {
  int64_t total = 0;
  for (const auto& [start, end] : intervals) total += end - start;
  return total;
}

/// The time in which exactly a combination of `sets` has an interval, indexed by flags 1 << i for
/// sets[i]. Each set's intervals are disjoint and sorted.
std::vector<int64_t> time_by_combination(const std::vector<std::vector<Interval>>& sets) {
  struct Change {
    int64_t time;
    int flags;  // flag of the set whose interval begins; negative if it ends
  };
  std::vector<Change> changes;
  for (size_t i = 0; i < sets.size(); ++i)
    for (const auto& [start, end] : sets[i]) {
      changes.push_back({start, 1 << i});
      changes.push_back({end, -(1 << i)});
    }
  std::ranges::stable_sort(changes, {}, &Change::time);
  std::vector<int64_t> times(size_t{1} << sets.size());
  int running = 0;
  for (size_t i = 0; i + 1 < changes.size(); ++i) {
    running += changes[i].flags;
    if (running > 0) times[running] += changes[i + 1].time - changes[i].time;
  }
  return times;
}

}  // namespace

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Statistics statistics_of(std::vector<double> values) {
  Statistics result;
  if (values.empty()) return result;
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  result.count = static_cast<int64_t>(values.size());
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  if (values.size() > 1) result.deviation = std::sqrt(squares / (count - 1));
  result.min = values.front();
  result.quarter = quantile(values, 0.25);
  result.median = quantile(values, 0.5);
  result.three_quarters = quantile(values, 0.75);
  result.max = values.back();
  return result;
}

std::string_view name(KernelType type) {
  constexpr std::string_view names[] = {"computation", "communication", "memory", "other"};
  return names[static_cast<size_t>(type)];
}

KernelType kernel_type(std::string_view kernel, bool as_hta) {
  if (as_hta) return type_of_release(kernel);
  if (starts_with_any(kernel, {"nccl", "hip", "hccl"}) || contains(kernel, "ncclKernel"))
    return KernelType::communication;
  if (moves_memory(kernel)) return KernelType::memory;
  const bool other =
      contains(kernel, "Memcpy") || contains(kernel, "Memset") || contains(kernel, "dma") ||
      contains(kernel, "Sync") || launches_by_cuda(kernel) ||
      starts_with_any(kernel, {"Stream Wait Event", "runFunction", "job_exe", "packet", "pe_exe",
                               "cpum_exe_subgraph", "collective_subgraph_execution"});
  return other ? KernelType::other : KernelType::computation;
}

std::vector<KernelType> kernel_types(const NameTable& names, bool as_hta) {
  std::vector<KernelType> types(names.size());
  for (uint32_t i = 0; i < names.size(); ++i) types[i] = kernel_type(names[i], as_hta);
  return types;
}

std::string copy_kind(std::string_view kernel) {
  if (kernel.starts_with("Memset")) return "Memset";
  constexpr size_t kind = std::string_view("Memcpy DtoH").size();
  return kernel.starts_with("Memcpy") ? std::string(kernel.substr(0, kind)) : "Memcpy Unknown";
}

std::string short_name(std::string_view name) {
  if (moves_memory(name) || name.find_first_of("<(") == std::string_view::npos)
    return std::string(name);
  std::string text;
  const auto close = [&](char opening) {
    const size_t at = text.rfind(opening);
    text.resize(at == std::string::npos ? 0 : at);
  };
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i, 2) == "->")
      ++i;
    else if (name[i] == '>')
      close('<');
    else if (name[i] == ')')
      close('(');
    else
      text += name[i];
  }
  return text.substr(text.rfind(' ') + 1);
}

std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::ranges::stable_sort(intervals, {}, &Interval::start);
  std::vector<Interval> result;
  for (const auto& interval : intervals) {
    if (result.empty() || interval.start > result.back().end)
      result.push_back(interval);
    else
      result.back().end = std::max(result.back().end, interval.end);
  }
  return result;
}

DeviceTimes::DeviceTimes(const RankTrace& trace, const Selection& selection,
                         const std::vector<KernelType>& types)
    : by_type_(3) {
  for (const auto& launched : selection.device) {
    const auto& event = trace.events[launched.event];
    const Interval interval{event.start_ns, event.end_ns()};
    all_.push_back(interval);
    const auto type = types[event.name];
    if (type != KernelType::other) by_type_[static_cast<size_t>(type)].push_back(interval);
  }
  all_ = merged(std::move(all_));
  for (auto& intervals : by_type_) intervals = merged(std::move(intervals));
}

TemporalBreakdown DeviceTimes::temporal() const {
  TemporalBreakdown times;
  if (all_.empty()) return times;
  times.span_ns = all_.back().end - all_.front().start;
  times.idle_ns = times.span_ns - total_length(all_);
  times.compute_ns = total_length(by_type_[0]);
  times.non_compute_ns = times.span_ns - times.compute_ns - times.idle_ns;
  return times;
}

TypeTimes DeviceTimes::by_type() const {
  return {time_by_combination({by_type_[0], by_type_[1]}), time_by_combination(by_type_)};
}

std::optional<double> DeviceTimes::overlap() const {
  const int64_t communication = total_length(by_type_[1]);
  if (communication == 0) return std::nullopt;
  return static_cast<double>(time_by_combination({by_type_[0], by_type_[1]})[3]) /
         static_cast<double>(communication);
}

std::vector<StreamIdle> idle_times(const RankTrace& trace, const Selection& selection,
                                   int64_t consecutive_kernel_delay_ns) {
  std::map<int32_t, std::vector<Launched>> streams;
  for (const auto& launched : selection.device) {
    const auto& event = trace.events[launched.event];
    if (is_work(event)) streams[event.stream].push_back(launched);
  }
  std::vector<StreamIdle> result;
  for (auto& [stream, work] : streams)
    result.push_back(idle_of_stream(trace, std::move(work), stream, consecutive_kernel_delay_ns));
  return result;
}

std::vector<KernelTime> kernel_breakdown(const RankTrace& trace, const Selection& selection,
                                         const std::vector<KernelType>& types,
                                         const TraceRules& rules) {
  std::vector<Durations> by_name(trace.names.size());
  for (const auto& launched : selection.device) {
    const auto& event = trace.events[launched.event];
    by_name[event.name].add(event.duration_ns);
  }
  std::vector<KernelTime> rows;
  for (const auto type : {KernelType::computation, KernelType::communication, KernelType::memory}) {
    std::vector<NamedDurations> kernels;
    for (uint32_t i = 0; i < by_name.size(); ++i)
      if (by_name[i].calls() > 0 && types[i] == type) kernels.push_back({i, by_name[i]});
    append(trace, type, std::move(kernels), rules, rows);
  }
  return rows;
}

LaunchStatistics launch_statistics(const RankTrace& trace, const Selection& selection,
                                   const TraceRules& rules) {
  LaunchStatistics result;
  std::vector<double> calls, works, delays;
  for (const auto& launched : selection.device) {
    if (launched.call == Launched::none) continue;
    const auto& call = trace.events[launched.call];
    if (!launches_work(trace.name_of(call), rules.as_hta)) continue;
    const auto& work = trace.events[launched.event];
    const int64_t delay = std::max<int64_t>(0, work.start_ns - call.end_ns());
    calls.push_back(static_cast<double>(call.duration_ns));
    works.push_back(static_cast<double>(work.duration_ns));
    delays.push_back(static_cast<double>(delay));
    if (work.duration_ns < call.duration_ns) ++result.short_work;
    if (call.duration_ns > rules.slow_launch_ns) ++result.slow_calls;
    if (delay > rules.launch_delay_ns) ++result.late_starts;
  }
  result.call = statistics_of(std::move(calls));
  result.work = statistics_of(std::move(works));
  result.delay = statistics_of(std::move(delays));
  return result;
}

}  // namespace composer
