// What ranges took, by name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace composer {

/// What the ranges of one name took.
struct RangeTotal {
  int64_t calls = 0;
  double seconds = 0;       ///< of the outermost, where one lies in another of its name
  double self_seconds = 0;  ///< without the ranges inside
};

using RangeTotals = std::map<std::string, RangeTotal, std::less<>>;

}  // namespace composer
