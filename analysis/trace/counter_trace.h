// Traces with what changes over their time drawn beside their events.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "analysis/trace/selection.h"

namespace composer {

/// Writes the events of `trace`'s file again to `path`, uncompressed, and behind them counters
/// (Perfetto draws them as curves): "Queue Length" of each stream and "Memcpy BW" of each kind of
/// copy, as HTA's generate_trace_with_counters does. UserError where the trace has no end, or the
/// folder cannot be made; RunError where the file cannot be written.
void write_counter_trace(const RankTrace& trace, const Selection& selection,
                         const TraceRules& rules, const std::filesystem::path& path);

/// `folder` and the name of the trace's file with "_with_counters"; where that is among `taken`,
/// with the rank too.
std::filesystem::path counter_trace_path(const RankTrace& trace,
                                         const std::filesystem::path& folder,
                                         const std::vector<std::string>& taken);

}  // namespace composer
