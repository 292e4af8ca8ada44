// What two traces do differently.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace/trace_rules.h"

namespace composer {

enum class DeviceKind { cpu, gpu, all };

/// Which events of a trace are compared: those of a rank in one step of ProfilerStep#N. Without
/// numbers, the first ones.
struct DiffSide {
  std::optional<int64_t> rank, step;
};

struct DiffRow {
  std::string name;
  int64_t control_count = 0, test_count = 0;
  int64_t control_ns = 0, test_ns = 0;

  int64_t count_change() const { return test_count - control_count; }
  int64_t time_change_ns() const { return test_ns - control_ns; }
  /// '+' where the test has more of them, '-' fewer, '='.
  char change() const { return count_change() > 0 ? '+' : count_change() < 0 ? '-' : '='; }
};

struct TraceDiff {
  std::filesystem::path control_file, test_file;
  DiffSide control, test;     ///< with the numbers that were taken
  std::vector<DiffRow> rows;  ///< by name (hta/trace_diff.py, compare_traces)
  std::vector<std::string> warnings;
};

struct DiffRequest {
  DiffSide control, test;
  DeviceKind device = DeviceKind::all;
  bool short_names = false;  ///< without arguments and template arguments
  bool as_hta = false;       ///< times rounded as HTA rounds them, and marks of steps as events
};

/// A step's events are those that the host began in it, and what they launched; its own mark is not
/// among them, but as_hta. UserError where there is no such rank or step.
TraceDiff diff_traces(const std::filesystem::path& control, const std::filesystem::path& test,
                      const DiffRequest& request);

}  // namespace composer
