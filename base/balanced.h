// Work that is shared out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

namespace composer {

/// Which of loads.size() workers does each piece of work, where they have `loads` to do already:
/// the costliest go first, each to the one that has the least (Graham 1969, "longest processing
/// time first"). The same numbers give the same answer everywhere.
inline std::vector<size_t> balanced(const std::vector<double>& costs, std::vector<double> loads) {
  std::vector<size_t> order(costs.size()), workers(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return costs[i]; });
  for (const size_t i : order) {
    const auto least = std::ranges::min_element(loads);
    workers[i] = static_cast<size_t>(least - loads.begin());
    *least += costs[i];
  }
  return workers;
}

}  // namespace composer
