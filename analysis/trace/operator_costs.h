// Which operators take the host's time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/trace/host_lanes.h"

namespace composer {

struct OperatorCost {
  std::string name;
  std::string shapes;  ///< of its inputs, where the trace has them; "" in sums by name
  int64_t calls = 0;
  int64_t self_ns = 0;   ///< without the operators inside
  int64_t total_ns = 0;  ///< with them
};

/// Of the operators (cpu_op) that begin in a window, on all threads. By self time, from the most.
struct OperatorCosts {
  int64_t self_ns = 0;  ///< of all
  std::vector<OperatorCost> by_name;
  std::vector<OperatorCost> by_shapes;

  /// The self time of those whose name contains one of `parts`.
  int64_t self_of(std::initializer_list<std::string_view> parts) const;
};

OperatorCosts operator_costs(const RankTrace& trace,
                             const std::vector<std::vector<uint32_t>>& lanes, const Window& window);

}  // namespace composer
