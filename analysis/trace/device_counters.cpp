#include "analysis/trace/device_counters.h"

#include <algorithm>
#include <charconv>

namespace composer {
namespace {

/// Below this a sum of bandwidths is what rounding left of none.
constexpr double kNoBandwidth = 1e-6;

/// In GB/s; 0 where the trace does not tell it, or tells what cannot be.
double bandwidth_of(const RankTrace& trace, const TraceEvent& event) {
  double bandwidth = 0;
  if (event.detail == no_detail) return bandwidth;
  const auto text = trace.names[event.detail];
  constexpr double most = 1e9;
  std::from_chars(text.data(), text.data() + text.size(), bandwidth);
  return bandwidth >= 0 && bandwidth < most ? bandwidth : 0;
}

/// The running sum of changes, in the order of their time.
CounterSeries running_sum(CounterSeries changes) {
  std::ranges::stable_sort(changes, {}, &CounterPoint::time_ns);
  double sum = 0;
  for (auto& point : changes) point.value = sum += point.value;
  return changes;
}

template <class Key>
std::map<Key, CounterSeries> running_sums(std::map<Key, CounterSeries> changes) {
  for (auto& [key, series] : changes) series = running_sum(std::move(series));
  return changes;
}

}  // namespace

std::map<int32_t, CounterSeries> queue_lengths(const RankTrace& trace, const Selection& selection) {
  std::map<int32_t, CounterSeries> launches, starts;
  for (const auto& [number, call] : selection.device) {
    if (call == Launched::none || !launches_work(trace.name_of(trace.events[call]), false))
      continue;
    const auto& event = trace.events[number];
    launches[event.stream].push_back({trace.events[call].start_ns, 1});
    starts[event.stream].push_back({event.start_ns, -1});
  }
  for (auto& [stream, series] : launches)
    series.insert(series.end(), starts[stream].begin(), starts[stream].end());
  return running_sums(std::move(launches));
}

std::map<std::string, CounterSeries> copy_bandwidths(const RankTrace& trace,
                                                     const Selection& selection,
                                                     const std::vector<KernelType>& types,
                                                     bool as_hta) {
  std::map<std::string, CounterSeries> begins, ends;
  for (const auto& launched : selection.device) {
    const auto& event = trace.events[launched.event];
    if (types[event.name] != KernelType::memory) continue;
    const double bandwidth = bandwidth_of(trace, event);
    const auto kind = copy_kind(trace.name_of(event));
    const int64_t duration = event.duration_ns == 0 ? 1000 : event.duration_ns;
    begins[kind].push_back({event.start_ns, bandwidth});
    ends[kind].push_back({event.start_ns + duration, -bandwidth});
  }
  auto& first = as_hta ? begins : ends;
  auto& second = as_hta ? ends : begins;
  for (auto& [kind, series] : first)
    series.insert(series.end(), second[kind].begin(), second[kind].end());
  return running_sums(std::move(first));
}

std::vector<QueueSummary> queue_summaries(const RankTrace& trace, const Selection& selection,
                                          int64_t capacity) {
  const auto span = static_cast<double>(selection.last_start_ns - selection.first_start_ns);
  std::vector<QueueSummary> summaries;
  for (const auto& [stream, series] : queue_lengths(trace, selection)) {
    QueueSummary summary;
    summary.stream = stream;
    std::vector<double> lengths;
    for (size_t i = 0; i < series.size(); ++i) {
      lengths.push_back(series[i].value);
      if (series[i].value >= static_cast<double>(capacity) && i + 1 < series.size())
        summary.blocked_ns += series[i + 1].time_ns - series[i].time_ns;
    }
    summary.length = statistics_of(std::move(lengths));
    if (span > 0) summary.blocked_share = static_cast<double>(summary.blocked_ns) / span;
    summaries.push_back(summary);
  }
  return summaries;
}

std::vector<CopySummary> copy_summaries(const RankTrace& trace, const Selection& selection,
                                        const std::vector<KernelType>& types, bool as_hta) {
  std::vector<CopySummary> summaries;
  for (const auto& [kind, series] : copy_bandwidths(trace, selection, types, as_hta)) {
    std::vector<double> values;
    for (const auto& point : series)
      if (point.value > (as_hta ? 0 : kNoBandwidth)) values.push_back(point.value);
    if (!values.empty()) summaries.push_back({kind, statistics_of(std::move(values))});
  }
  return summaries;
}

}  // namespace composer
