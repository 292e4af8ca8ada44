// What `composer watch` shows of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/run.h"

namespace composer {

/// How far a run is, as far as that is known.
struct RunProgress {
  std::optional<double> share;         ///< of its length, in [0, 1]
  std::optional<double> seconds_left;  ///< at the pace of its last tenth
};
RunProgress progress_of(const Run& run);

/// Status, progress, curves and the last evaluations: exactly `rows` lines of at most `columns`
/// columns, not counting escape sequences. Curves that there is no room for are left out.
std::vector<std::string> watch_screen(const Run& run, int64_t columns, int64_t rows);

/// One line for people on an entry of the log that ends an epoch or an evaluation; empty for
/// others.
std::string watch_line(const LogEntry& entry);

}  // namespace composer
