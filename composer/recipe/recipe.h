// Recipes: a YAML file and overrides become the components and options of a run, checked as a whole
// before anything is loaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "composer/recipe/options.h"
#include "composer/recipe/registry.h"

namespace composer {

/// A further evaluation set.
struct NamedEvaluation {
  std::string name;
  std::shared_ptr<ComponentOf<Dataset>> dataset;
  EvaluatorOptions options{};
};

/// A resolved recipe. Components are chosen and their parameters set; nothing is built yet.
struct Recipe {
  TrainerOptions options;
  std::shared_ptr<ComponentOf<Model>> model;
  std::shared_ptr<ComponentOf<Dataset>> train_dataset;
  /// Null: no evaluation. With a split: the set of train_dataset, for evaluation.
  std::shared_ptr<ComponentOf<Dataset>> val_dataset;
  std::shared_ptr<ComponentOf<Optimizer>> optimizer;
  std::vector<std::shared_ptr<ComponentOf<Scheduler>>> schedulers;
  std::vector<std::shared_ptr<ComponentOf<Algorithm>>> algorithms;
  std::vector<std::shared_ptr<ComponentOf<Callback>>> callbacks;
  std::vector<std::shared_ptr<ComponentOf<LogSink>>> loggers;
  /// The keys that are `auto` (composer/recipe/automatic.h). Until resolve_automatic() their
  /// values are stand-ins.
  std::vector<std::string> automatic;
  std::vector<NamedEvaluation> evaluators{};  ///< beside val_dataset
};

/// The names of the recipe's algorithms, in their order.
std::vector<std::string> algorithm_names(const Recipe& recipe);

/// The text of a recipe and the name that messages give it.
struct RecipeFile {
  std::string name;
  std::string text;
};

/// How the command uses the recipe.
struct RecipeUse {
  /// Nothing is trained: a key's ending that fits train_dataset and val_dataset means val_dataset's
  /// key.
  bool evaluation = false;
  std::vector<std::string> options;  ///< the command's own options ("top_k"), for suggestions
};

/// Default < recipe < overrides, the words of a command line:
///   --a.b.c value, --a.b.c=value; any suffix that is unique among the keys of the recipe; several
///   words for a list;
///   --algorithms a b replaces the list and keeps the parameters of names in both; --optimizer name
///   likewise; a bare option is true; `none` is an empty list or no value.
/// UserError lists all problems, one line each, in the order of their positions. Loads nothing. A
/// relative data folder that is not in the working directory may be beside the file.
Recipe resolve(const RecipeFile& file, const std::vector<std::string>& overrides = {},
               const Registry& known = registry(), RecipeUse use = {});

/// Resolves a tree(), perhaps with changed values. Problems name no line, as the values come from
/// no file.
Recipe resolve(Value tree, const Registry& known = registry(), RecipeUse use = {});

/// The recipe as YAML that resolves to the same recipe, with *** for secrets in addresses
/// (base/url_secrets.h). It has every key but an empty run_name and empty evaluators.
std::string dump(const Recipe& recipe);

/// A recipe made in C++, checked like a file's. Addresses keep their secrets. UserError as
/// resolve().
Recipe checked(const Recipe& recipe, const Registry& known = registry());

/// Secrets of addresses in a dump: *** or plain.
enum class Secrets { hidden, kept };

/// A dump() that is valid in any working directory: existing data and an existing load_path have
/// absolute paths.
std::string dump_with_absolute_paths(const Recipe& recipe, Secrets secrets = Secrets::hidden);

/// The split in a dumped recipe; the default in a dump without the key.
SplitOptions split_of(const std::string& dumped);

/// `text` is a path, or the name of a recipe that is part of the program: resnet50,
/// models/resnet50.yaml, composer/yamls/models/resnet50.yaml. A file comes before such a name only
/// where `text` has a '/' or ends in .yaml or .yml. Throws UserError when there is neither.
RecipeFile find_recipe(const std::string& text);

/// Whether `text` is the name of a recipe that is part of the program, or a file that ends in .yaml
/// or .yml.
bool names_recipe(const std::string& text);

/// The recipes that are part of the program: name, and the first line of its text.
struct RecipeDoc {
  std::string name, doc;
};
std::vector<RecipeDoc> list_recipes();

/// Calls f(ChoiceKey, the chosen component or components) for every choice of the recipe.
template <class SomeRecipe, class F>
void for_each_choice(SomeRecipe& recipe, F f) {
#define X(key, kind, several, alters) f(ChoiceKey::key, recipe.key);
  COMPOSER_CHOICES(X)
#undef X
}

/// The recipe as a value with every key, which resolve() takes. The val_dataset of a split is left
/// out.
Value tree(const Recipe& recipe);

/// `dumped` with the load_... keys of `begun`. Unchanged if either is empty.
std::string with_start_of(const std::string& dumped, const std::string& begun);

/// The changes between two resolved recipes (YAML), one line for each key whose value differs and
/// may change the weights: "optimizer.sgd.lr: the checkpoint's was 0.1, this run's is 0.01",
/// "algorithms.ema: the checkpoint's run did not have it". Empty if either is no recipe. Seed,
/// grad_accum and device are left out: a checkpoint stores them by itself.
std::vector<std::string> recipe_changes(const std::string& checkpoints, const std::string& runs);

/// The name of a resolved recipe's optimizer; empty if there is none.
std::string optimizer_of(const std::string& recipe);

/// The recipe_changes() below the key `model`.
std::vector<std::string> model_changes(const std::string& checkpoints, const std::string& runs);

}  // namespace composer
