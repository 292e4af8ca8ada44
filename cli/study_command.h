// What ablate and sweep have in common: options, checks, and the way from variants to a table.
#pragma once

#include <CLI/App.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/study.h"
#include "cli/commands.h"
#include "cli/study_folder.h"
#include "composer/recipe/recipe.h"

namespace composer {

struct StudyOptions {
  std::string file = "quickstart";
  int64_t seeds = 1, jobs = 1;
  std::string target, metric, output;
  bool json = false;
};

/// seeds: how many there are without an option.
void add_study_options(CLI::App& app, StudyOptions& options, int64_t seeds);

/// UserError for --seeds and --jobs below 1, an --output that is no path of this machine, and keys
/// among `words` that a study sets itself.
void check_study_options(const std::string& command, const StudyOptions& options,
                         const Words& words);

/// "resnet50" of a recipe's path or name.
std::string name_of_recipe(const std::string& file);

/// A recipe that is to be trained with each seed.
struct StudyVariant {
  std::string name;              ///< for people
  std::string file;              ///< of its recipe and, with the seed, of its runs
  std::optional<Recipe> recipe;  ///< none: it is impossible, as `problem` says
  std::string problem{}, series{}, round{};
};

/// What a recipe's runs log: names of losses and metrics. Builds the model, opens no data.
std::vector<std::string> logged_metrics(const Recipe& recipe);

/// A study on its way: its variants are trained as they are added.
class StudyProgress {
 public:
  /// recipe: that the variants come from. plan: what decides which runs there are, beside the
  /// recipe, --seeds and the command. UserError for options that the recipe does not allow.
  StudyProgress(const std::string& command, const StudyOptions& options, const Recipe& recipe,
                nlohmann::ordered_json plan);

  /// Of all that was added; what does not depend on the runs is for the command to fill in.
  Study& study() { return study_; }
  const StudyFolder& folder() const { return folder_; }

  /// Trains the variants with every seed where that is not done yet, and adds them to the study.
  /// Throws Interrupted, after a line that says how to go on.
  void train(const std::vector<StudyVariant>& variants);
  /// Writes the page, and the table or the JSON object on standard output. Returns the exit status.
  int finish();

 private:
  Variant variant_of(const StudyVariant& variant) const;
  void tell(const std::string& name, const std::string& variant, int64_t seed,
            const std::string& problem);
  void try_to_write_page() const;

  std::string command_;
  StudyOptions options_;
  Study study_;
  int64_t first_seed_;
  StudyFolder folder_;
  std::map<std::string, std::string> problems_;  ///< of runs that failed now
  size_t told_ = 0, to_tell_ = 0;
};

}  // namespace composer
