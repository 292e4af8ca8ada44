#include "analysis/trace/counter_trace.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "analysis/trace/device_counters.h"
#include "analysis/trace/text_source.h"
#include "composer/error.h"
#include "composer/storage/atomic_file.h"

namespace composer {
namespace {

/// One event that says what a counter is from some moment on. value: of what JSON calls a number.
std::string counter_event(const char* counter, const std::string& name, const std::string& id,
                          const CounterPoint& point) {
  std::array<char, 96> numbers{};
  std::snprintf(numbers.data(), numbers.size(), R"("ts": %lld.%03lld, "args": {"%s": %.9g}})",
                static_cast<long long>(point.time_ns / 1000),
                static_cast<long long>(point.time_ns % 1000), counter, point.value);
  return R"({"ph": "C", "pid": 0, "name": ")" + name + "\"" +
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

std::string name_with_counters(const std::filesystem::path& file) {
  const auto name = file.filename().string();
  const size_t ending = std::min(name.find(".pt.trace.json"), name.find(".json"));
  return name.substr(0, ending) + "_with_counters.json";
}

}  // namespace

std::filesystem::path write_counter_trace(const RankTrace& trace, const Selection& selection,
                                          const TraceRules& rules,
                                          const std::filesystem::path& folder) {
  if (trace.events_end < 0)
    throw UserError(trace.file + ": ends in the middle, so that counters have no place in it");
  std::filesystem::create_directories(folder);
  const auto path = folder / name_with_counters(trace.file);
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
  return path;
}

}  // namespace composer
