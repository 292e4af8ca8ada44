// From a resolved recipe to the parts of a run.
#pragma once

#include "composer/recipe/recipe.h"
#include "composer/run/build.h"
#include "composer/run/trainer.h"

namespace composer {

/// Throws UserError where class_weights would put a cross-entropy in the place of the model's own,
/// other loss.
void check_class_weights(const TrainerOptions& options, const Model& model);

/// Throws UserError where the model's outputs are not for the targets of the set that is trained or
/// evaluated on. Reads what the set's files say of them.
void check_targets(const Recipe& recipe, const Model& model, bool training);

/// UserError where ranks that have rows of the same images could leave out different samples.
void check_bad_samples(const TrainerOptions& options);

std::vector<std::shared_ptr<Scheduler>> build_schedulers(const Recipe& recipe);

/// Model, algorithms and callbacks; no data, no optimizer.
TrainerParts assemble_model(const Recipe& recipe, const RunContext& context = read_run_context());

/// Meets the other ranks where this process is one of several: sets the device, where it is not
/// set, the ranks, and the same run_name on all. UserError where a rank was started with other
/// settings. The functions below do it for parts made from a recipe.
void join(TrainerParts& parts);

/// What `assemble_model` makes and the data of all evaluations. UserError when the recipe has none.
TrainerParts assemble_evaluation(const Recipe& recipe,
                                 const RunContext& context = read_run_context());

/// Everything. UserError when data are missing or do not fit the model.
TrainerParts assemble_training(const Recipe& recipe,
                               const RunContext& context = read_run_context());

}  // namespace composer
