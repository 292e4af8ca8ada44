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

/// Of the operators (cpu_op) that begin in a window, on all threads. Where one overlaps another
/// without lying in it, only the time that both have is taken from the first one's self time.
struct OperatorCosts {
  static constexpr size_t most_rows = 50;

  int64_t calls = 0, self_ns = 0;  ///< of all
  /// The self time of conversions and copies, of convolutions, and of normalisation, activation and
  /// arithmetic, known by their names.
  int64_t copies_ns = 0, convolutions_ns = 0, pointwise_ns = 0;
  std::vector<OperatorCost> by_name, by_shapes;  ///< those with most self time, from the most
};

OperatorCosts operator_costs(const RankTrace& trace,
                             const std::vector<std::vector<uint32_t>>& lanes, const Window& window);

}  // namespace composer
