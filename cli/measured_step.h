// The step of a finished run, for plan-scale --from.
#pragma once

#include <string>

#include "composer/recipe/recipe.h"
#include "scale/hardware.h"
#include "scale/step_time.h"

namespace composer {

/// The step time of the run in `folder`, split as in its log; on a CPU without waits for the
/// loader's threads. UserError when the run had several ranks or did not end, or is of another
/// network or kind of device; warns when another key that influences the time of a step differs.
MeasuredStep measured_step(const std::string& folder, const Recipe& recipe, const Gpu& gpu);

}  // namespace composer
