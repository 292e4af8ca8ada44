// Which steps of a run are traced, and what a trace holds.
#pragma once

#include <cstdint>
#include <string>

#include "base/params/params.h"

namespace composer {

/// In steps of this process: after skip_first ones, cycles of wait, warmup and active, each of
/// which leaves a trace of its active ones. As PyTorch's profiler counts.
struct TraceSchedule {
  int64_t skip_first = 5, wait = 0, warmup = 1, active = 0, repeat = 1;

  void fields(auto&& f) {
    f("skip_first", skip_first, "steps before the first cycle", at_least(0));
    f("wait", wait, "steps of a cycle that pass first", at_least(0));
    f("warmup", warmup, "steps that the tracer then warms up in", at_least(0));
    f("active", active, "steps that are then traced; 0 = none, --profile makes it 5", at_least(0));
    f("repeat", repeat, "cycles; 0 = on and on", at_least(0));
  }
};

struct ProfilerOptions {
  TraceSchedule schedule;
  bool record_shapes = false, profile_memory = false, with_stack = false;

  void fields(auto&& f) {
    f("schedule", schedule, "which steps are traced");
    f("record_shapes", record_shapes, "note the shapes of operators' inputs");
    f("profile_memory", profile_memory,
      "memory over time: weights, gradients, optimizer, activations, input");
    f("with_stack", with_stack, "known to PyTorch's profiler; C++ has no such stacks");
  }

  std::string check() const {
    return with_stack ? "with_stack: must be false: a program in C++ has no Python stacks\n" : "";
  }
};

/// What happens in a step.
enum class TraceAction { none, warmup, record, record_and_save };

/// step: from 0 on.
TraceAction scheduled_action(const TraceSchedule& schedule, int64_t step);

}  // namespace composer
