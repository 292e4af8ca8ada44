// The step that a finished run took, for plans of more GPUs.
#pragma once

#include <string>

#include "composer/recipe/recipe.h"
#include "scale/plan.h"

namespace composer {

/// A step of the run in `folder`, in the shares that its log has: its rate, on a CPU apart from
/// waits for the loader's threads. UserError where the run is of several ranks, did not end, or is
/// of another network or kind of device than the recipe on that GPU; a warning where something else
/// that its step's time follows differs.
MeasuredStep measured_step(const std::string& folder, const Recipe& recipe, const Gpu& gpu);

}  // namespace composer
