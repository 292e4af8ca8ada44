// The screen of `composer watch`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/run.h"

namespace composer {

/// The progress of a run, as far as it is known.
struct RunProgress {
  std::optional<double> share;         ///< trained share of the run's length, in [0, 1]
  std::optional<double> seconds_left;  ///< at the pace of the last tenth of the trained batches
};
RunProgress progress_of(const Run& run);

/// Status, progress, curves and the last evaluations: exactly `rows` lines of at most `columns`
/// columns, not counting escape sequences. Curves that do not fit are left out.
std::vector<std::string> watch_screen(const Run& run, int64_t columns, int64_t rows);

/// One readable line for a log entry that ends an epoch or an evaluation; empty for other entries.
std::string watch_line(const LogEntry& entry);

}  // namespace composer
