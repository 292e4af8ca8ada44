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
  std::vector<LineChart> others;  ///< whatever else was logged and moved
  /// Logged and always the same in a run: metric, and the value in each run (empty: not logged).
  std::vector<std::pair<std::string, std::vector<std::string>>> constants;
};

/// Of one run a chart holds what belongs together, training and evaluation; of several it holds one
/// metric of all of them.
RunCharts charts_of(std::span<const Run> runs);
/// RunCharts::main alone.
std::vector<LineChart> main_charts_of(std::span<const Run> runs);

}  // namespace composer
