// A resolved recipe as a tree of values.
#pragma once

#include "composer/recipe/recipe.h"

namespace composer {

/// f(its ChoiceKey, the chosen component or components) for every choice of the recipe.
template <class SomeRecipe, class F>
void for_each_choice(SomeRecipe& recipe, F f) {
#define X(key, kind, several, alters) f(ChoiceKey::key, recipe.key);
  COMPOSER_CHOICES(X)
#undef X
}

/// The recipe with every key, as it can be resolved again: without the val_dataset of a split.
Value tree(const Recipe& recipe);

/// `dumped`, with what its run started from (load_path and what goes with it) as `begun` has it;
/// as it is where either is empty.
std::string with_start_of(const std::string& dumped, const std::string& begun);

}  // namespace composer
