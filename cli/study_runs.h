// The trainings of a study: processes of this program, several at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/study_folder.h"

namespace composer {

/// A run that is to be trained or resumed.
struct StudyTraining {
  std::string variant, name;  ///< names of the recipe file and of the run
  int64_t seed = 0;
  std::string secret_recipe;  ///< recipe to read in place of the file; empty: read the file
  Words words;                ///< further words of the command line
  TrainerOptions options;
};

/// The share of the machine for one of several trainings at a time.
struct MachineShare {
  std::map<std::string, std::string> environment;
  Words words;
};

/// Divides the machine among `jobs` trainings. With more than one, each gets an equal share of the
/// processors that this process may use, split into threads as for a rank
/// (composer/run/rank_threads.h), and one of the GPUs, round-robin.
class MachineShares {
 public:
  /// gpus: whether any training may use a GPU.
  MachineShares(int64_t jobs, bool gpus);

  size_t jobs() const { return jobs_; }
  /// The share of the training in slot `place`, which is below jobs().
  MachineShare of(size_t place, const TrainerOptions& options) const;

 private:
  size_t jobs_;
  int64_t cores_ = 0;  ///< cores of each training
  Words gpus_;         ///< values of CUDA_VISIBLE_DEVICES, one for each GPU
};

/// Called when a training has ended. problem: why it failed; empty when it is done or was
/// interrupted.
using TrainingEnded =
    std::function<void(const StudyTraining& training, const std::string& problem)>;

/// Runs the trainings in order, shares.jobs() at a time, each from its newest checkpoint. A
/// training that fails does not end the others. A signal that asks for the end is passed on to the
/// running trainings, which save, and no more are started. Returns that signal; 0 without one.
int train_all(const StudyFolder& folder, const std::vector<StudyTraining>& trainings,
              const MachineShares& shares, const TrainingEnded& ended);

}  // namespace composer
