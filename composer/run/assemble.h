// Builds the parts of a run from a resolved recipe.
#pragma once

#include "composer/recipe/recipe.h"
#include "composer/run/build.h"
#include "composer/run/trainer.h"

namespace composer {

/// UserError if class_weights would replace the model's own loss by a cross-entropy.
void check_class_weights(const TrainerOptions& options, const Model& model);

/// UserError if the model's outputs do not fit the targets of the set that is trained or evaluated
/// on. May read the set's files.
void check_targets(const Recipe& recipe, const Model& model, bool training);

/// UserError if ranks with rows of the same images could skip different samples.
void check_bad_samples(const TrainerOptions& options);

std::vector<std::shared_ptr<Scheduler>> build_schedulers(const Recipe& recipe);

/// Builds model, algorithms and callbacks; no data and no optimizer.
TrainerParts assemble_model(const Recipe& recipe, const RunContext& context = read_run_context());

/// Joins the other ranks if there are several: sets the device if it is not set, the ranks, and a
/// common run_name. UserError if a rank was started with other settings. The functions below call
/// it.
void join(TrainerParts& parts);

/// Builds the parts of assemble_model() and the data of all evaluations. UserError if the recipe
/// has none.
TrainerParts assemble_evaluation(const Recipe& recipe,
                                 const RunContext& context = read_run_context());

/// Builds all parts of a training. UserError if data are missing or do not fit the model.
TrainerParts assemble_training(const Recipe& recipe,
                               const RunContext& context = read_run_context());

}  // namespace composer
