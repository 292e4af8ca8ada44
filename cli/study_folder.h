// The folder of a study: what ablate and sweep leave, and go on from.
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
  /// Makes the folder, or goes on with it, and keeps other processes out of it as long as this
  /// lives. options: what decides which runs the study has, beside the recipe. UserError when
  /// another process has it, when it is of a study with another recipe or other options, naming
  /// them, when it is no study's, and when it cannot be written.
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

  /// That the run is trained as one of so many at a time. The largest number is kept, for a run
  /// that went on too.
  void note_jobs(const std::string& run, int64_t jobs) const;
  /// 1 where it had the machine alone.
  int64_t jobs_of(const std::string& run) const;

  /// OtherPrograms::share() while it was trained. The largest is kept.
  void note_others(const std::string& run, double share) const;
  /// 0 where none was noted.
  double others_share_of(const std::string& run) const;

 private:
  std::filesystem::path folder_;
  std::unique_ptr<Mailbox> lock_;
};

/// The text of the recipe's file with the secrets of its addresses, which the file does not have;
/// empty where there are none.
std::string recipe_with_secrets(const Recipe& recipe);

}  // namespace composer
