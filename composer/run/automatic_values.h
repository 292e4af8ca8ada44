// Values that a recipe leaves to the data and weights of the run: from `auto` to numbers.
#pragma once

#include <string>
#include <vector>

#include "base/params/value.h"
#include "base/run_context.h"
#include "composer/recipe/recipe.h"

namespace composer {

/// What a recipe is resolved for.
enum class Purpose {
  training,
  evaluation,  ///< only what the network and the set that is evaluated on follow from
  plan  ///< where data or weights are missing, stand-ins stay, and ResolvedRecipe::choices say so
};

struct ResolvedRecipe {
  /// None of its keys is `auto`, and class_weights are numbers, but in a plan.
  Recipe recipe;
  std::vector<std::string> choices;   ///< "train_batch_size: 8, as an epoch has ...": a line each
  std::vector<std::string> unread{};  ///< of a plan: why a datadir or load_path could not be read
};

/// Decides the keys that are `auto` (automatic_keys()), and for training class_weights that are
/// balanced or by name. Reads which samples train_dataset has, some of their images, and the
/// weights of load_path. A pure function of these, the recipe and the number of ranks; a recipe
/// without such keys stays as it is. Throws UserError with all that is wrong: where data or weights
/// are missing or do not tell, and for classes of too few images.
ResolvedRecipe resolve_automatic(const Recipe& recipe, const RunContext& context,
                                 Purpose purpose = Purpose::training,
                                 const Registry& known = registry());

/// The recipe of a run that is gone on with.
struct Begun {
  Value recipe;
  std::string source;  ///< where it is from, for messages
  bool own = true;     ///< its checkpoint is in the folder of the run, rather than at load_path
};

/// The values that a run has, for one that goes on: what was added to its data since does not
/// change them. Keys that its recipe lacks stay `auto`.
ResolvedRecipe resolve_as(const Recipe& recipe, const Begun& begun,
                          const Registry& known = registry());

/// The recipe resolved for its run: with the values that this chose when it began, where it goes on
/// from a checkpoint in its folder.
ResolvedRecipe resolve_automatic_for_run(const Recipe& recipe, const RunContext& context,
                                         Purpose purpose = Purpose::training);

/// The recipe resolved for training, with a line in the log for each choice. What changes a recipe
/// that may have `auto` resolves it first, as later choices would take the place of its changes.
Recipe resolved_with_log(const Recipe& recipe, const RunContext& context);

}  // namespace composer
