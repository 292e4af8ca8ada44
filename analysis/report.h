// The page that shows runs.
#pragma once

#include <string>
#include <vector>

#include "analysis/run.h"

namespace composer {

/// One HTML page that needs nothing beside itself: drawings are SVG, pictures lie inside, and
/// without a script only the values under the pointer are missing. At least one run.
std::string report_page(const std::vector<Run>& runs);

/// The status in its colour.
std::string status_pill(const std::string& status);

}  // namespace composer
