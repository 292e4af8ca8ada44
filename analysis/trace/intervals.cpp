#include "analysis/trace/intervals.h"

#include <algorithm>

namespace composer {

std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::ranges::stable_sort(intervals, {}, &Interval::start);
  std::vector<Interval> result;
  for (const auto& interval : intervals) {
    if (result.empty() || interval.start > result.back().end)
      result.push_back(interval);
    else
      result.back().end = std::max(result.back().end, interval.end);
  }
  return result;
}

int64_t total_length(const std::vector<Interval>& intervals) {
  int64_t total = 0;
  for (const auto& [start, end] : intervals) total += end - start;
  return total;
}

std::vector<int64_t> time_by_combination(const std::vector<std::vector<Interval>>& sets) {
  struct Change {
    int64_t time;
    int flags;  // those that begin, or minus those that end
  };
  std::vector<Change> changes;
  for (size_t i = 0; i < sets.size(); ++i)
    for (const auto& [start, end] : sets[i]) {
      changes.push_back({start, 1 << i});
      changes.push_back({end, -(1 << i)});
    }
  std::ranges::stable_sort(changes, {}, &Change::time);
  std::vector<int64_t> times(size_t{1} << sets.size());
  int running = 0;
  for (size_t i = 0; i + 1 < changes.size(); ++i) {
    running += changes[i].flags;
    if (running > 0) times[running] += changes[i + 1].time - changes[i].time;
  }
  return times;
}

}  // namespace composer
