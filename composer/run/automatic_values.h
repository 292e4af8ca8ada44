// Resolves the recipe's values that are `auto` by the data and weights of the run.
#pragma once

#include <string>
#include <vector>

#include "base/params/value.h"
#include "base/run_context.h"
#include "composer/recipe/recipe.h"

namespace composer {

/// The use of the resolved recipe.
enum class Purpose {
  training,
  evaluation,  ///< resolves only the keys that an evaluation depends on
  plan         ///< keys that lack their data or weights keep their stand-ins; the choices name them
};

struct ResolvedRecipe {
  /// Except in a plan, no key is `auto`, and class_weights are numbers.
  Recipe recipe;
  /// One line per choice: "train_batch_size: 8, as an epoch has ...".
  std::vector<std::string> choices;
  std::vector<std::string> unread{};  ///< in a plan: why a datadir or load_path could not be read
};

/// Resolves the keys that are `auto` (automatic_keys()), and for training class_weights that are
/// balanced or by name. Reads the list of train_dataset's samples, some of their images, and the
/// weights of load_path. The result is a pure function of these, the recipe and the number of
/// ranks; a recipe without such keys is unchanged. UserError lists all problems: missing data or
/// weights, undeterminable values, and classes with too few images.
ResolvedRecipe resolve_automatic(const Recipe& recipe, const RunContext& context,
                                 Purpose purpose = Purpose::training,
                                 const Registry& known = registry());

/// The recipe of the run that is resumed.
struct Begun {
  Value recipe;
  std::string source;  ///< the recipe's origin, for messages
  bool own = true;     ///< the checkpoint is in the run's folder, not at load_path
};

/// Resolves keys that are `auto` to the values of the resumed run: data added since do not change
/// them. Keys that its recipe lacks stay `auto`.
ResolvedRecipe resolve_as(const Recipe& recipe, const Begun& begun,
                          const Registry& known = registry());

/// The recipe resolved for its run. A resumed run keeps the values that it chose when it began.
ResolvedRecipe resolve_automatic_for_run(const Recipe& recipe, const RunContext& context,
                                         Purpose purpose = Purpose::training);

/// The recipe resolved for training, with one log line per choice. Code that changes a recipe calls
/// it first, as later choices would override its changes.
Recipe resolved_with_log(const Recipe& recipe, const RunContext& context);

}  // namespace composer
