// What the threads of the host did, one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/trace/profiler_steps.h"
#include "analysis/trace/trace_event.h"

namespace composer {

/// By lane of the trace, the numbers of its operators, ranges and runtime calls, by start; of those
/// that start together the longest first. Marks of steps are not among them.
std::vector<std::vector<uint32_t>> host_lanes(const RankTrace& trace);

/// From the first mark of a step to the end of the last; without marks, all host events.
struct Window {
  int64_t start_ns = 0, end_ns = 0;
};
Window window_of(const RankTrace& trace, const std::vector<ProfilerStep>& steps);

/// How much of the window a thread has an event.
struct ThreadUse {
  std::string thread;  ///< its name, or its number
  int64_t events = 0;
  int64_t busy_ns = 0;
  double idle_share = 0;
};

/// Those with events in the window, the busiest first.
std::vector<ThreadUse> thread_use(const RankTrace& trace,
                                  const std::vector<std::vector<uint32_t>>& lanes,
                                  const Window& window);

}  // namespace composer
