// How long an epoch is, found before a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/loading/image_size.h"
#include "base/run_context.h"
#include "base/time.h"
#include "composer/recipe/recipe.h"

namespace composer {

/// Samples and batches of an epoch.
struct EpochLength {
  int64_t samples = 0, batches = 0;
  ImageSize image;
  std::string digest{};                    ///< Loader::digest() of the data
  std::vector<std::string> class_names{};  ///< may be empty
  std::string note;  ///< where the data were not read, that and why; begins with a blank
};

/// Of the training data, or of those that are evaluated on, which the recipe must have. Where they
/// are missing it takes the set's published size. UserError when there is neither.
EpochLength epoch_length(const Recipe& recipe, const RunContext& context, bool training = true);
/// Of one of the recipe's further evaluation sets.
EpochLength epoch_length(const Recipe& recipe, const RunContext& context,
                         const NamedEvaluation& evaluator);

/// Of a run of such epochs, as the trainer has it.
RunLength planned_run_length(const EpochLength& length, const TrainerOptions& options);

}  // namespace composer
