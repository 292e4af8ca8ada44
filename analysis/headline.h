// The top of a page: which runs it shows, and what one came to.
#pragma once

#include <string>
#include <vector>

#include "analysis/run.h"

namespace composer {

std::string title_of(const std::vector<Run>& runs);

/// The status in its colour.
std::string status_pill(const std::string& status);

/// Title, what was trained on what, when and where; of runs that failed or were interrupted what
/// ended them.
std::string header_of(const std::vector<Run>& runs);

/// The last value of each metric, time, speed, memory.
std::string cards(const Run& run);

}  // namespace composer
