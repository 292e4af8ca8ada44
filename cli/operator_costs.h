// What operators and ranges take of training steps, for bench step --operators.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "nn/profiling/range_totals.h"

namespace composer {

/// Sums over `steps` steps.
struct OperatorCosts {
  int64_t steps = 0;
  double seconds = 0;
  RangeTotals operators, ranges;  ///< ranges: those of the training thread
  int64_t conversions = 0;        ///< count of a ConversionCounter
};

/// The totals by readable names. LibTorch names an operator's gradient, and the work of its engine,
/// after a C++ type.
RangeTotals with_readable_names(const RangeTotals& totals);

/// JSON per step: operators and ranges (arrays, the costliest first), outside_operators,
/// conversions.
nlohmann::ordered_json json_of(const OperatorCosts& costs);

/// Prints tables of ranges and operators, and the number of conversions.
void print_operator_costs(const OperatorCosts& costs, std::ostream& out);

}  // namespace composer
