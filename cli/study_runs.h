// The trainings of a study: processes of this program, some at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/study_folder.h"

namespace composer {

/// A run that is to be done, or gone on with.
struct StudyTraining {
  std::string variant, name;  ///< of the recipe's file, and of the run
  int64_t seed = 0;
  std::string secret_recipe;  ///< what to read in place of the recipe's file; empty: that file
  Words words;                ///< beside it
  TrainerOptions options;
};

/// What a training of several at a time is given of the machine.
struct MachineShare {
  std::map<std::string, std::string> environment;
  Words words;
};

/// The machine, divided among `jobs` trainings: with more than one, each gets its share of the
/// processors that this process may use, divided as between ranks (composer/run/rank_threads.h),
/// and one of the GPUs, in turn.
class MachineShares {
 public:
  /// gpus: whether some of the trainings may use them.
  MachineShares(int64_t jobs, bool gpus);

  size_t jobs() const { return jobs_; }
  /// What the training at the place, below jobs(), is given.
  MachineShare of(size_t place, const TrainerOptions& options) const;

 private:
  size_t jobs_;
  int64_t cores_ = 0;  ///< of each
  Words gpus_;         ///< as a process is told of them
};

/// A training that has ended. problem: why it failed; empty when it is done or was interrupted.
using TrainingEnded =
    std::function<void(const StudyTraining& training, const std::string& problem)>;

/// Trains them in their order, as many at a time as the machine is divided for, each from its
/// newest checkpoint if there is one. One that fails does not end the others. A signal that asks
/// for the end goes to those that run, which save, and starts no more. Returns that signal; 0 when
/// there was none.
int train_all(const StudyFolder& folder, const std::vector<StudyTraining>& trainings,
              const MachineShares& shares, const TrainingEnded& ended);

}  // namespace composer
