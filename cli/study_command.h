// Studies, the common part of ablate and sweep: options, checks, and the training of variants.
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

/// seeds: the default of --seeds.
void add_study_options(CLI::App& app, StudyOptions& options, int64_t seeds);

/// UserError for --seeds or --jobs below 1, for an --output on another machine, and for overrides
/// of keys that a study sets itself.
void check_study_options(const std::string& command, const StudyOptions& options,
                         const Words& words);

/// The name of a recipe, given its path or name: "resnet50".
std::string name_of_recipe(const std::string& file);

/// A recipe of the study, to be trained with each seed.
struct StudyVariant {
  std::string name;              ///< name in tables and messages
  std::string file;              ///< name of the recipe file; with the seed, name of the runs
  std::optional<Recipe> recipe;  ///< empty when the variant is impossible; `problem` says why
  std::string problem{}, series{}, round{};
};

/// The names of the losses and metrics that runs of the recipe log. Builds the model, opens no
/// data.
std::vector<std::string> logged_metrics(const Recipe& recipe);

/// A study in progress. Variants are trained when they are added.
class StudyProgress {
 public:
  /// recipe: the recipe of the study. plan: everything besides the recipe, --seeds and the command
  /// that decides which runs there are. UserError for options that do not fit the recipe.
  StudyProgress(const std::string& command, const StudyOptions& options, const Recipe& recipe,
                nlohmann::ordered_json plan);

  /// The study with all variants that were added. The command fills in the members that do not
  /// depend on the runs.
  Study& study() { return study_; }
  const StudyFolder& folder() const { return folder_; }

  /// Trains the runs of the variants that are not done yet, and adds the variants to the study.
  /// Throws Interrupted after a line that says how to resume.
  void train(const std::vector<StudyVariant>& variants);
  /// Writes the page, and prints the table or the JSON object. Returns the exit status.
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
  std::map<std::string, std::string> problems_;  ///< why runs failed, by run name
  size_t told_ = 0, to_tell_ = 0;
};

}  // namespace composer
