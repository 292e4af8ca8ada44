// The length of an epoch, determined before a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/loading/image_size.h"
#include "base/run_context.h"
#include "base/time.h"
#include "composer/recipe/recipe.h"

namespace composer {

/// Samples and batches of an epoch, and facts of the data.
struct EpochLength {
  int64_t samples = 0, batches = 0;
  ImageSize image;
  std::string digest{};                    ///< Loader::digest() of the data
  std::vector<std::string> class_names{};  ///< may be empty
  std::string note;  ///< why the data were not read, beginning with a blank; else empty
};

/// The length of the training data or of val_dataset, which the recipe must have. If the data are
/// missing, the set's published size is taken. UserError if there is none.
EpochLength epoch_length(const Recipe& recipe, const RunContext& context, bool training = true);
/// The length of a further evaluation set.
EpochLength epoch_length(const Recipe& recipe, const RunContext& context,
                         const NamedEvaluation& evaluator);

/// The length of a run by its options. batches, samples: those of an epoch.
RunLength planned_run_length(int64_t batches, int64_t samples, const TrainerOptions& options);

}  // namespace composer
