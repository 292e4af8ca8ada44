// Which events of a trace its analyses look at, and which call launched which.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/trace/trace_event.h"
#include "analysis/trace/trace_rules.h"

namespace composer {

/// A device's event and the host's call that launched it, by their numbers in the trace.
struct Launched {
  uint32_t event = 0;
  uint32_t call = none;  ///< none: not in the trace

  static constexpr uint32_t none = 0xffffffff;
};

/// What HTA keeps (hta/common/trace.py): with two ProfilerStep marks or more, what the host began
/// before the last of them, and what that launched on devices; with fewer, everything. Marks on the
/// rows of devices count with as_hta alone.
struct Selection {
  std::vector<Launched> device;  ///< in the order of the file
  bool last_step_dropped = false;
  int64_t first_start_ns = 0, last_start_ns = 0;  ///< of the events kept
};

Selection select(const RankTrace& trace, bool as_hta);

/// Whether a call by this name puts work into a stream's queue. as_hta: those that HTA's launch
/// statistics know.
bool launches_work(std::string_view call, bool as_hta);

}  // namespace composer
