#include "analysis/trace/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace composer {

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Statistics statistics_of(std::vector<double> values) {
  Statistics result;
  if (values.empty()) return result;
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  result.count = static_cast<int64_t>(values.size());
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  if (values.size() > 1) result.deviation = std::sqrt(squares / (count - 1));
  result.min = values.front();
  result.quarter = quantile(values, 0.25);
  result.median = quantile(values, 0.5);
  result.three_quarters = quantile(values, 0.75);
  result.max = values.back();
  return result;
}

}  // namespace composer
