// The training that a recipe describes, as input of the formulas.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "base/run_context.h"
#include "base/time.h"
#include "composer/recipe/recipe.h"
#include "scale/plan.h"

namespace composer {

/// A recipe's training, and the sources of its figures.
struct RecipeTraining {
  Training training;
  std::string model, loader_source, storage_source;
  std::string
      note;  ///< that the data were not read, and why; begins with a blank; empty: they were
  std::string not_evaluated;  ///< why evaluations are not counted; empty: they are
  int64_t parameters = 0;
  RunLength run_length;
};

/// Describes the recipe's run: its batch size, its network after surgery and freezing, and the
/// precision that the device supports. It reads only the number of samples, if the data are there.
/// UserError for a max_duration in seconds, or a network whose operations cannot be recorded.
RecipeTraining recipe_training(Recipe recipe, const RunContext& context, at::Device device);

}  // namespace composer
