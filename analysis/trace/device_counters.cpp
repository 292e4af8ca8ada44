#include "analysis/trace/device_counters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "analysis/trace/json_cursor.h"
#include "base/error.h"
#include "base/files/atomic_file.h"

namespace composer {
namespace {

/// A sum of bandwidths below this limit is a rounding error of 0.
constexpr double kNoBandwidth = 1e-6;

/// The copy's bandwidth in GB/s; 0 if the trace has none or an impossible one.
double bandwidth_of(const RankTrace& trace, const TraceEvent& event) {
  double bandwidth = 0;
  if (event.detail == no_detail) return bandwidth;
  const auto text = trace.names[event.detail];
  constexpr double most = 1e9;
  std::from_chars(text.data(), text.data() + text.size(), bandwidth);
  return bandwidth >= 0 && bandwidth < most ? bandwidth : 0;
}

/// The running sums of the changes in both maps, in the order of their time. At equal times
/// those in `first` come first. Keys of `second` are keys of `first`.
template <class Key>
std::map<Key, CounterSeries> running_sums(std::map<Key, CounterSeries> first,
                                          const std::map<Key, CounterSeries>& second) {
  for (auto& [key, series] : first) {
    const auto& others = second.at(key);
    series.insert(series.end(), others.begin(), others.end());
    std::ranges::stable_sort(series, {}, &CounterPoint::time_ns);
    double sum = 0;
    for (auto& point : series) point.value = sum += point.value;
  }
  return first;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// A trace event that sets a counter. `point.value` is finite, as JSON wants it.
std::string counter_event(const char* counter, const std::string& name, const std::string& id,
                          const CounterPoint& point) {
  std::array<char, 96> numbers{};
  const auto time = std::lldiv(std::llabs(point.time_ns), 1000);
  std::snprintf(numbers.data(), numbers.size(), R"("ts": %s%lld.%03lld, "args": {"%s": %.9g}})",
                point.time_ns < 0 ? "-" : "", time.quot, time.rem, counter, point.value);
  return R"({"ph": "C", "pid": 0, "name": )" + quoted(name) +
         (id.empty() ? "" : R"(, "id": )" + id) + ", " + numbers.data();
}

/// The number of waiting launches of each stream (hta/analyzers/trace_counters.py): one more when
/// the host launches, one less when the device begins.
std::map<int32_t, CounterSeries> queue_lengths(const RankTrace& trace, const Selection& selection) {
  std::map<int32_t, CounterSeries> launches, starts;
  for (const auto& [number, call] : selection.device) {
    if (call == Launched::none || !launches_work(trace.name_of(trace.events[call]), false))
      continue;
    const auto& event = trace.events[number];
    launches[event.stream].push_back({trace.events[call].start_ns, 1});
    starts[event.stream].push_back({event.start_ns, -1});
  }
  return running_sums(std::move(launches), starts);
}

/// The bandwidth in GB/s of each kind of copy ("Memcpy HtoD"). A copy without duration counts as 1
/// us long. When one copy ends as another begins, the end comes first; with as_hta, last.
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
  return as_hta ? running_sums(std::move(begins), ends) : running_sums(std::move(ends), begins);
}

void write_counters(AtomicFile& file, const RankTrace& trace, const Selection& selection,
                    const TraceRules& rules) {
  std::string separator = trace.has_events ? ",\n  " : "\n  ";
  const auto write = [&](const std::string& event) {
    file.write(separator + event);
    separator = ",\n  ";
  };
  for (const auto& [stream, series] : queue_lengths(trace, selection))
    for (const auto& point : series)
      write(counter_event("Queue Length", "Queue Length", std::to_string(stream), point));
  const auto types = kernel_types(trace.names, rules.as_hta);
  for (const auto& [kind, series] : copy_bandwidths(trace, selection, types, rules.as_hta))
    for (const auto& point : series) write(counter_event("Memcpy BW", kind, "", point));
}

}  // namespace

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

std::filesystem::path counter_trace_path(const RankTrace& trace,
                                         const std::filesystem::path& folder,
                                         const std::vector<std::string>& taken) {
  const auto file = std::filesystem::path(trace.file).filename().string();
  auto name = file.substr(0, std::min(file.find(".pt.trace.json"), file.find(".json")));
  for (;;) {
    auto path = folder / (name + "_with_counters.json");
    if (std::ranges::find(taken, path.string()) == taken.end()) return path;
    name += "_rank" + std::to_string(trace.rank);
  }
}

void write_counter_trace(const RankTrace& trace, const Selection& selection,
                         const TraceRules& rules, const std::filesystem::path& path) {
  if (trace.events_end < 0)
    throw UserError(trace.file + ": ends in the middle; counters need a complete trace");
  std::error_code problem;
  std::filesystem::create_directories(path.parent_path(), problem);
  if (problem)
    throw UserError(path.parent_path().string() + ": cannot be made: " + problem.message());
  AtomicFile file(path);
  TextSource text(trace.file);
  bool written = false;
  while (text.refill(text.end())) {
    const std::string_view piece(text.begin(), text.end());
    const int64_t split = trace.events_end - text.offset();
    if (written || split >= static_cast<int64_t>(piece.size())) {
      file.write(piece);
      continue;
    }
    file.write(piece.substr(0, split));
    write_counters(file, trace, selection, rules);
    file.write(piece.substr(split));
    written = true;
  }
  file.commit();
}

}  // namespace composer
