// Plans of a training on many GPUs, for people.
#pragma once

#include <iosfwd>
#include <vector>

#include "scale/plan.h"

namespace composer {

/// A line for each quantity, with a column for each plan. training, assumptions: what the plans are
/// of; quantities that these leave without meaning have no line.
void print_scale_table(std::ostream& out, const std::vector<ScalePlan>& plans,
                       const Training& training, const Assumptions& assumptions);

}  // namespace composer
