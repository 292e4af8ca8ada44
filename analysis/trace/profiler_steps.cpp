#include "analysis/trace/profiler_steps.h"

#include <algorithm>
#include <charconv>

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

}  // namespace composer
