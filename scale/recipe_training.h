// What a recipe trains, as the formulas take it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "base/run_context.h"
#include "base/time.h"
#include "composer/recipe/recipe.h"
#include "scale/plan.h"

namespace composer {

/// A recipe's training, and where its figures are from.
struct RecipeTraining {
  Training training;
  std::string model, loader_source, storage_source;
  std::string note;           ///< where the data were not read, that and why; begins with a blank
  std::string not_evaluated;  ///< why evaluations are not counted
  int64_t parameters = 0;
  Schedule schedule;
};

/// The recipe's run with its batch size, after surgery and with its frozen layers, in the precision
/// that the device gives. Of its data only their length is read, where they are there. UserError
/// for a length in seconds, and for a network whose operations cannot be recorded.
RecipeTraining recipe_training(Recipe recipe, const RunContext& context, at::Device device);

}  // namespace composer
