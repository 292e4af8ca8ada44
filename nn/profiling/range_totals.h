// Sums of the time of ranges, by name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace composer {

/// The time of all ranges of one name.
struct RangeTotal {
  int64_t calls = 0;
  double seconds = 0;  ///< seconds of the outermost ranges, where ranges of one name are nested
  double self_seconds = 0;  ///< seconds without the ranges inside
};

using RangeTotals = std::map<std::string, RangeTotal, std::less<>>;

}  // namespace composer
