// Analyses of traces as JSON (docs/traces.md names its members).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analysis/trace/trace_analysis.h"
#include "analysis/trace/trace_diff.h"

namespace composer {

nlohmann::ordered_json json_of(const TraceAnalysis& analysis);
nlohmann::ordered_json json_of(const TraceDiff& diff);

/// A combination of TypeTimes: "computation overlapping communication".
std::string type_combination(size_t flags);

}  // namespace composer
