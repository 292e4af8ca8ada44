// A resolved recipe as a tree of values.
#pragma once

#include "composer/recipe/recipe.h"

namespace composer {

/// f(key, the chosen component or components) for every choice of the recipe.
template <class SomeRecipe, class F>
void for_each_choice(SomeRecipe& recipe, F f) {
  f("model", recipe.model);
  f("train_dataset", recipe.train_dataset);
  f("val_dataset", recipe.val_dataset);
  f("optimizer", recipe.optimizer);
  f("schedulers", recipe.schedulers);
  f("algorithms", recipe.algorithms);
  f("callbacks", recipe.callbacks);
  f("loggers", recipe.loggers);
}

/// The recipe with every key, as it can be resolved again: without the val_dataset of a split.
Value tree(const Recipe& recipe);

}  // namespace composer
