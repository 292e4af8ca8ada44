#include "analysis/trace/device_times.h"

#include <algorithm>
#include <map>

namespace composer {
namespace {

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

}  // namespace

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

}  // namespace composer
