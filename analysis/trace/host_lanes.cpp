#include "analysis/trace/host_lanes.h"

#include <algorithm>
#include <limits>

namespace composer {
namespace {

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

}  // namespace

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

}  // namespace composer
