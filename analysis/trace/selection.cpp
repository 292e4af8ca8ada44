#include "analysis/trace/selection.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

namespace composer {
namespace {

constexpr int64_t kAlways = std::numeric_limits<int64_t>::max();

/// The start of the last step; kAlways with fewer than two marks.
int64_t start_of_last_step(const RankTrace& trace, bool as_hta) {
  std::set<uint32_t> marks;
  int64_t last = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const auto& event = trace.events[i];
    if (!event.profiler_step || (!as_hta && !event.on_host())) continue;
    marks.insert(event.name);
    last = std::max(last, event.start_ns);
  }
  return marks.size() < 2 ? kAlways : last;
}

using Calls = std::unordered_map<int64_t, uint32_t>;

/// The host's calls by correlation: the last call that launches work, or else the last call.
Calls calls_before(const RankTrace& trace, int64_t cutoff) {
  Calls calls;
  for (uint32_t i = 0; i < trace.events.size(); ++i) {
    const auto& event = trace.events[i];
    if (event.correlation < 0 || event.on_device() || event.start_ns >= cutoff ||
        event.category == EventCategory::synchronization)
      continue;
    const auto [place, is_new] = calls.try_emplace(event.correlation, i);
    if (!is_new && (launches_work(trace.name_of(event), false) ||
                    !launches_work(trace.name_of(trace.events[place->second]), false)))
      place->second = i;
  }
  return calls;
}

}  // namespace

bool launches_work(std::string_view call, bool as_hta) {
  constexpr std::string_view known[] = {"cudaLaunchKernel", "cudaLaunchKernelExC",
                                        "cudaMemcpyAsync", "cudaMemsetAsync",
                                        "runFunction - job_prep_and_submit_for_execution"};
  constexpr std::string_view others[] = {
      "cuLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel",    "hipExtModuleLaunchKernel",
      "hipMemcpyAsync", "hipMemsetAsync",   "hipMemcpyWithStream"};
  return std::ranges::find(known, call) != std::end(known) ||
         (!as_hta && std::ranges::find(others, call) != std::end(others));
}

Selection select(const RankTrace& trace, bool as_hta) {
  Selection selection;
  const int64_t cutoff = start_of_last_step(trace, as_hta);
  selection.last_step_dropped = cutoff != kAlways;
  const auto calls = calls_before(trace, cutoff);
  int64_t first = kAlways, last = std::numeric_limits<int64_t>::min();
  for (uint32_t i = 0; i < trace.events.size(); ++i) {
    const auto& event = trace.events[i];
    bool kept = event.start_ns < cutoff;
    if (event.on_device()) {
      const auto call = calls.find(event.correlation);
      const bool linked = event.correlation >= 0 && call != calls.end();
      if (event.correlation >= 0) kept = linked || !selection.last_step_dropped;
      if (kept) selection.device.push_back({i, linked ? call->second : Launched::none});
    }
    if (!kept) continue;
    first = std::min(first, event.start_ns);
    last = std::max(last, event.start_ns);
  }
  if (first <= last) selection.first_start_ns = first, selection.last_start_ns = last;
  return selection;
}

}  // namespace composer
