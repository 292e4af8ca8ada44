// Stretches of time, and how they lie over each other.
#pragma once

#include <cstdint>
#include <vector>

namespace composer {

struct Interval {
  int64_t start = 0, end = 0;
};

/// The same time in intervals that do not touch, in order.
std::vector<Interval> merged(std::vector<Interval> intervals);

int64_t total_length(const std::vector<Interval>& intervals);

/// For each combination of `sets`, the time in which exactly these have an interval: [1 << i] of
/// sets[i] alone, [3] of the first two. Each set's intervals are disjoint and sorted.
std::vector<int64_t> time_by_combination(const std::vector<std::vector<Interval>>& sets);

}  // namespace composer
