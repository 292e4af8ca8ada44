// Which charts a report has of its runs.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/line_chart.h"
#include "analysis/run.h"

namespace composer {

struct RunCharts {
  std::vector<LineChart> main;    ///< loss, accuracy, learning rate, image size, speed, ...
  std::vector<LineChart> others;  ///< all other metrics that changed
  /// Metrics that never changed in any run, with the value in each run (empty: not logged).
  std::vector<std::pair<std::string, std::vector<std::string>>> constants;
};

/// The charts of one run combine training and evaluation; each chart of several runs shows one
/// metric of all of them.
RunCharts charts_of(std::span<const Run> runs);
/// Only RunCharts::main of charts_of().
std::vector<LineChart> main_charts_of(std::span<const Run> runs);

}  // namespace composer
