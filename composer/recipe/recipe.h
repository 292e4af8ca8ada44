// Recipes: a YAML file and overrides become the components and options of a run, checked as a whole
// before anything is loaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "composer/recipe/options.h"
#include "composer/recipe/registry.h"

namespace composer {

/// A further set that is evaluated on.
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

/// Of the recipe's algorithms, in their order.
std::vector<std::string> algorithm_names(const Recipe& recipe);

/// The text of a recipe and the name that messages give it.
struct RecipeFile {
  std::string name;
  std::string text;
};

/// The command that a recipe is resolved for.
struct RecipeUse {
  /// Nothing is trained: an ending that fits train_dataset and val_dataset means val_dataset's key.
  bool evaluation = false;
  std::vector<std::string> options;  ///< the command's own ("top_k"), which a word may have meant
};

/// Default < recipe < overrides, the words of a command line:
///   --a.b.c value, --a.b.c=value; any suffix that is unique among the keys of the recipe; several
///   words for a list;
///   --algorithms a b replaces the list and keeps the parameters of names in both; --optimizer name
///   likewise; a bare option is true; `none` is an empty list or no value.
/// Throws UserError with everything that is wrong, one line each, in the order of their places.
/// Loads nothing. A relative folder of data in the file that is not in the working directory may be
/// beside the file.
Recipe resolve(const RecipeFile& file, const std::vector<std::string>& overrides = {},
               const Registry& known = registry(), RecipeUse use = {});

/// Resolves a tree() with other values (composer/recipe/dump.h). Problems name no line, as no file
/// has these values.
Recipe resolve(Value tree, const Registry& known = registry(), RecipeUse use = {});

/// The recipe as YAML that resolves to the same, but that *** stands for secrets of addresses
/// (base/url_secrets.h). Every key is there but an empty run_name and empty
/// evaluators.
std::string dump(const Recipe& recipe);

/// A recipe that was made in C++, checked as a file's is; addresses keep their secrets. Throws
/// UserError as resolve().
Recipe checked(const Recipe& recipe, const Registry& known = registry());

/// Of addresses, in a dump: as *** or as they are.
enum class Secrets { hidden, kept };

/// The same as dump() for use from any folder: data and a load_path that are there have absolute
/// paths.
std::string dump_with_absolute_paths(const Recipe& recipe, Secrets secrets = Secrets::hidden);

/// The split of a recipe that was dumped; none for an older one.
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

/// One line for each key whose value differs between two resolved recipes (YAML) and may change the
/// weights: "optimizer.sgd.lr: the checkpoint's was 0.1, this run's is 0.01", "algorithms.ema: the
/// checkpoint's run did not have it". Nothing where either is no recipe. Seed, grad_accum and
/// device are left out: a checkpoint has them on its own.
std::vector<std::string> recipe_changes(const std::string& checkpoints, const std::string& runs);

/// The name of the optimizer of a resolved recipe; empty where there is none.
std::string optimizer_of(const std::string& recipe);

/// Those of the network alone, by the key `model`.
std::vector<std::string> model_changes(const std::string& checkpoints, const std::string& runs);

}  // namespace composer
