// What many numbers come to.
#pragma once

#include <cstdint>
#include <vector>

namespace composer {

struct Statistics {
  int64_t count = 0;
  double mean = 0, deviation = 0;  ///< of a sample: divided by count - 1; 0 for fewer than two
  double min = 0, quarter = 0, median = 0, three_quarters = 0, max = 0;
};

/// Zeros where there are no values.
Statistics statistics_of(std::vector<double> values);

/// Between the two values nearest to it, in proportion. sorted: not empty. share: in [0, 1].
double quantile(const std::vector<double>& sorted, double share);

}  // namespace composer
