// The folder of a study, from which ablate and sweep resume.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/files/mailbox.h"
#include "composer/recipe/recipe.h"

namespace composer {

/// | file               | content                                                      |
/// | plan.json          | the study's recipe and options; another's are refused        |
/// | recipes/V.yaml     | the recipe of variant V                                      |
/// | runs/V-seedS/      | the run of variant V with seed S                             |
/// | logs/V-seedS.log   | what that training printed                                   |
/// | logs/V-seedS.jobs  | with how many others at a time, where there were any         |
/// | logs/V-seedS.busy  | the share of the machine that other programs had meanwhile   |
/// | report.html        | the study's page                                             |
class StudyFolder {
 public:
  /// Creates the folder or resumes it, and locks it while this object lives. options: everything
  /// besides the recipe that decides which runs the study has. UserError when another process holds
  /// the lock, when the folder belongs to a study with another recipe or other options (the message
  /// names them) or to no study, and when it cannot be written.
  StudyFolder(std::filesystem::path folder, const std::string& command,
              const nlohmann::ordered_json& options, const Recipe& recipe);

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path runs() const { return folder_ / "runs"; }
  std::filesystem::path run(const std::string& name) const { return runs() / name; }
  std::filesystem::path log(const std::string& name, const char* ending = ".log") const {
    return folder_ / "logs" / (name + ending);
  }
  std::filesystem::path recipe(const std::string& variant) const {
    return folder_ / "recipes" / (variant + ".yaml");
  }
  std::filesystem::path page() const { return folder_ / "report.html"; }

  void write_recipe(const std::string& variant, const Recipe& recipe) const;

  /// Records that the run is one of `jobs` that are trained at a time. The largest number is kept
  /// when a run is resumed.
  void note_jobs(const std::string& run, int64_t jobs) const;
  /// The recorded number of jobs; 1 by default.
  int64_t jobs_of(const std::string& run) const;

  /// Records OtherPrograms::share() during the training. The largest share is kept.
  void note_others(const std::string& run, double share) const;
  /// The recorded share; 0 by default.
  double others_share_of(const std::string& run) const;

 private:
  std::filesystem::path folder_;
  std::unique_ptr<Mailbox> lock_;
};

/// The text of the recipe with the secrets of its addresses, which the recipe's file lacks; empty
/// for a recipe without secrets.
std::string recipe_with_secrets(const Recipe& recipe);

}  // namespace composer
