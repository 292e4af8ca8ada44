// Builds single parts of a recipe, and determines the length of an epoch before a run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/run_context.h"
#include "composer/loop/loader.h"
#include "composer/recipe/recipe.h"
#include "nn/device/exception_text.h"
#include "nn/network/model.h"

namespace composer {

/// Builds the component. Exceptions of its constructor, but UserError, are rethrown with the
/// component's path below the recipe's `key`.
template <class T>
std::shared_ptr<T> constructed(const ComponentOf<T>& component, const std::string& key) {
  try {
    return component.build();
  } catch (const UserError&) {
    throw;
  } catch (...) {
    rethrow_of(key + "." + component.name(), "construction");
  }
}

/// The recipe's model with its initial weights, a function of the seed.
std::shared_ptr<Model> build_model(const Recipe& recipe);

/// A set of the recipe, not yet opened. It reaches stores with the recipe's remote options.
std::shared_ptr<Dataset> build_dataset(const Recipe& recipe, const ComponentOf<Dataset>& set);

/// The set of train_dataset or val_dataset, not yet opened. UserError if it cannot be split and
/// should be.
std::shared_ptr<Dataset> build_dataset(const Recipe& recipe, bool training);

/// The options of a loader: batch size, seed, threads, part of a split, and bad samples. pin_memory
/// is false.
LoaderOptions loader_options(const TrainerOptions& options, const RunContext& context,
                             bool training);

/// The options of a loader of a further evaluation set, which is never split.
LoaderOptions loader_options(const TrainerOptions& options, const RunContext& context,
                             const EvaluatorOptions& evaluator);

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
