// Sharing work among workers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

namespace composer {

/// Assigns each piece of work to one of loads.size() workers, who already have `loads` to do. The
/// costliest piece goes first, each to the worker with the least load (Graham 1969, "longest
/// processing time first"). Returns a worker for each cost; equal arguments give equal results on
/// every machine.
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
