// The kinds of components, and the recipe keys that choose them.
#pragma once

#include <string>
#include <string_view>

// The list of kinds: X(kind, Base, word). kind: the catalog, and the word of `composer list`; Base:
// the class of its components; word: the singular.
#define COMPOSER_KINDS(X)             \
  X(models, Model, model)             \
  X(datasets, Dataset, dataset)       \
  X(optimizers, Optimizer, optimizer) \
  X(schedulers, Scheduler, scheduler) \
  X(algorithms, Algorithm, algorithm) \
  X(callbacks, Callback, callback)    \
  X(loggers, LogSink, logger)

// The list of the recipe keys that choose components: X(key, kind, several, alters). key: also the
// member of Recipe; several: whether it may name more than one component; alters: whether the
// trained weights depend on it.
#define COMPOSER_CHOICES(X)               \
  X(model, models, false, true)           \
  X(train_dataset, datasets, false, true) \
  X(val_dataset, datasets, false, false)  \
  X(optimizer, optimizers, false, true)   \
  X(schedulers, schedulers, true, true)   \
  X(algorithms, algorithms, true, true)   \
  X(callbacks, callbacks, true, false)    \
  X(loggers, loggers, true, false)

namespace composer {

enum class ChoiceKey {
#define X(key, kind, several, alters) key,
  COMPOSER_CHOICES(X)
#undef X
};

/// A row of COMPOSER_CHOICES.
struct ChoiceFacts {
  std::string_view key;
  bool several, alters;
};

inline constexpr ChoiceFacts choice_facts[] = {
#define X(key, kind, several, alters) {#key, several, alters},
    COMPOSER_CHOICES(X)
#undef X
};

constexpr std::string_view name(ChoiceKey key) {
  return choice_facts[static_cast<size_t>(key)].key;
}

/// The path of a component in recipes, messages and checkpoints: "algorithms.ema".
inline std::string path_of(ChoiceKey key, std::string_view component) {
  return std::string(name(key)).append(1, '.').append(component);
}

}  // namespace composer
