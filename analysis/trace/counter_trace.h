// Traces with what changes over their time drawn beside their events.
#pragma once

#include <filesystem>

#include "analysis/trace/selection.h"

namespace composer {

/// Writes the events of `trace`'s file again, uncompressed, and behind them counters (Perfetto
/// draws them as curves): "Queue Length" of each stream and "Memcpy BW" of each kind of copy, as
/// HTA's generate_trace_with_counters does. Returns the new file: in `folder`, which it makes, by
/// the old name with "_with_counters". UserError where the trace has no end; RunError where the
/// file cannot be written.
std::filesystem::path write_counter_trace(const RankTrace& trace, const Selection& selection,
                                          const TraceRules& rules,
                                          const std::filesystem::path& folder);

}  // namespace composer
