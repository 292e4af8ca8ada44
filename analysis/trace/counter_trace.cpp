#include "analysis/trace/counter_trace.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "analysis/trace/device_counters.h"
#include "analysis/trace/text_source.h"
#include "base/error.h"
#include "base/files/atomic_file.h"

namespace composer {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// One event that says what a counter is from some moment on. value: of what JSON calls a number.
std::string counter_event(const char* counter, const std::string& name, const std::string& id,
                          const CounterPoint& point) {
  std::array<char, 96> numbers{};
  const auto time = std::lldiv(std::llabs(point.time_ns), 1000);
  std::snprintf(numbers.data(), numbers.size(), R"("ts": %s%lld.%03lld, "args": {"%s": %.9g}})",
                point.time_ns < 0 ? "-" : "", time.quot, time.rem, counter, point.value);
  return R"({"ph": "C", "pid": 0, "name": )" + quoted(name) +
         (id.empty() ? "" : R"(, "id": )" + id) + ", " + numbers.data();
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
    throw UserError(trace.file + ": ends in the middle, so that counters have no place in it");
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
