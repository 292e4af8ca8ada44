// The steps that a trace marks by ProfilerStep#N.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/trace/trace_event.h"

namespace composer {

struct ProfilerStep {
  int64_t number = 0;
  int64_t start_ns = 0, end_ns = 0;
  uint16_t lane = 0;
};

/// Those of the host, by start.
std::vector<ProfilerStep> profiler_steps(const RankTrace& trace);

/// The step in which `time_ns` lies.
const ProfilerStep* step_at(const std::vector<ProfilerStep>& steps, int64_t time_ns);

}  // namespace composer
