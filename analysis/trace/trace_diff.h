// The differences of two traces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace/trace_reader.h"

namespace composer {

enum class DeviceKind { cpu, gpu, all };

/// The rank and the step (ProfilerStep#N) whose events are compared. Without numbers, the first
/// rank and the first step.
struct DiffSide {
  std::optional<int64_t> rank, step;
};

struct DiffRow {
  std::string name;
  int64_t control_count = 0, test_count = 0;
  int64_t control_ns = 0, test_ns = 0;

  int64_t count_change() const { return test_count - control_count; }
  int64_t time_change_ns() const { return test_ns - control_ns; }
  /// '+' if the test has more calls, '-' if fewer, '=' if equally many.
  char change() const { return count_change() > 0 ? '+' : count_change() < 0 ? '-' : '='; }
};

struct TraceDiff {
  std::filesystem::path control_file, test_file;
  DiffSide control, test;     ///< with the rank and the step that were compared
  std::vector<DiffRow> rows;  ///< by name (hta/trace_diff.py, compare_traces)
  std::vector<std::string> warnings;
};

struct DiffRequest {
  DiffSide control, test;
  DeviceKind device = DeviceKind::all;
  bool short_names = false;  ///< without arguments and template arguments
  bool as_hta = false;       ///< rounds times as HTA does, and counts step marks as events
};

/// A step's events are the host's events that begin in it and the device events that they launched;
/// its own mark counts only with as_hta. UserError if there is no such rank or step.
TraceDiff diff_traces(const std::filesystem::path& control, const std::filesystem::path& test,
                      const DiffRequest& request);

}  // namespace composer
