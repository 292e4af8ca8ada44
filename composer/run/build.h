// Single parts of a recipe, built.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "base/run_context.h"
#include "composer/loop/loader.h"
#include "composer/recipe/recipe.h"
#include "nn/device/exception_text.h"
#include "nn/network/model.h"

namespace composer {

/// Builds the component. What its constructor throws names it below the recipe's `key`, but for
/// UserError.
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

/// One of the recipe's sets, which reaches stores as the recipe says, not yet opened.
std::shared_ptr<Dataset> build_dataset(const Recipe& recipe, const ComponentOf<Dataset>& set);

/// The set of train_dataset or val_dataset, not yet opened. UserError when it is to be split and
/// cannot be.
std::shared_ptr<Dataset> build_dataset(const Recipe& recipe, bool training);

/// Batch size, seed and threads of a loader, its side of a split, and what bad samples do. Not
/// pinned.
LoaderOptions loader_options(const TrainerOptions& options, const RunContext& context,
                             bool training);

/// Of one of the recipe's further evaluation sets, which are never split.
LoaderOptions loader_options(const TrainerOptions& options, const RunContext& context,
                             const EvaluatorOptions& evaluator);

}  // namespace composer
