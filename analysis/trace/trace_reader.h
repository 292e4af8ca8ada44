// Reads traces as PyTorch's profiler (Kineto) and Chrome write them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "analysis/trace/trace_event.h"

namespace composer {

/// How the times of a trace are taken.
enum class TraceTimes {
  exact,                 ///< nanoseconds, as the file has them
  rounded_microseconds,  ///< as HolisticTraceAnalysis rounds: starts up, ends down
};

/// Reads `file` (.json or .json.gz: an object with traceEvents, or an array of events), an event
/// at a time: in memory are 40 bytes for each event that has a duration, each name once, and a
/// piece of 4 MiB. A file that ends in the middle is read as far as it goes, with a warning.
/// `rank` stays -1 where the file does not tell it. Negative durations are taken for 0, with a
/// warning. UserError, with the byte, for what is no trace.
RankTrace read_trace(const std::filesystem::path& file, TraceTimes times = TraceTimes::exact);

/// What the metadata of `file` in front of its events tells: its rank, or none. UserError for what
/// is no trace up to there.
std::optional<int64_t> rank_in(const std::filesystem::path& file);

}  // namespace composer
