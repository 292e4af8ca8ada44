// Reads traces as PyTorch's profiler (Kineto) and Chrome write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "analysis/trace/trace_event.h"

namespace composer {

/// How the times of a trace are read.
enum class TraceTimes {
  exact,                 ///< nanoseconds, as the file has them
  rounded_microseconds,  ///< rounded as by HolisticTraceAnalysis: starts up, ends down
};

/// Reads `file` (.json or .json.gz: an object with traceEvents, or an array of events), an event at
/// a time. Memory holds 40 bytes per event with a duration, each name once, and 4 MiB of text. A
/// truncated file is read as far as it goes, with a warning. `rank` stays -1 if the file has none.
/// Negative durations become 0, with a warning. UserError with the byte's offset if the file is no
/// trace.
RankTrace read_trace(const std::filesystem::path& file, TraceTimes times = TraceTimes::exact);

/// The rank in the metadata of `file` before its events, if it is there. UserError if the file is
/// no trace up to its events.
std::optional<int64_t> rank_in(const std::filesystem::path& file);

}  // namespace composer
