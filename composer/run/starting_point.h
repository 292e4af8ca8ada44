// The start of a run: fresh weights, those of load_path, or a checkpoint of its own folder. Only
// this file looks for checkpoints in the folder of a resumed run.
#pragma once

#include <filesystem>
#include <string>

#include "base/files/run_folder.h"
#include "base/rank_environment.h"
#include "composer/checkpoint/checkpoint.h"
#include "composer/recipe/options.h"
#include "nn/distributed/ranks.h"
#include "nn/network/layer.h"

namespace composer {

struct StartingPoint {
  std::filesystem::path path;  ///< empty: fresh weights
  bool everything = false;     ///< the run of the checkpoint is resumed
  bool own = false;            ///< the checkpoint is in this run's folder
};

/// UserError if `path` is neither empty nor something that weights can be loaded from. Remote files
/// are fetched (base/remote/fetched.h).
void check_load_path(const std::string& path, const RemoteOptions& remote = {});

/// The options of a rank; a restarted rank resumes its run.
TrainerOptions taken_up(TrainerOptions options, const RankEnvironment& environment);

/// Whether the run is resumed from a checkpoint in its own folder.
bool goes_on(const TrainerOptions& options);

/// newest: the checkpoint that autoresume found, or empty. trains: false for an evaluation.
/// UserError if the options contradict each other. The path may not exist.
StartingPoint starting_point(const TrainerOptions& options, bool trains,
                             const std::filesystem::path& newest);

/// Looks in `folder`, which the first rank has claimed, and in save_remote for a checkpoint to
/// resume training from, else at load_path. A newer checkpoint of save_remote is copied to the
/// folder. All ranks call it, with the same options. UserError on all ranks as newest_checkpoint()
/// and starting_point(), and if a rank does not see the files.
StartingPoint find_starting_point(const TrainerOptions& options, bool trains,
                                  const RunFolder& folder, const Ranks& ranks);

/// For a plan: the checkpoint in the run's folder that training would be resumed from, or empty.
/// Changes nothing there. Warns if training would be refused, and that it does not look in
/// save_remote.
std::filesystem::path find_own_checkpoint(const TrainerOptions& options);

/// Compares the weights' network with this one: weights of another network may fit by name and
/// shape (blurpool) and be wrong. UserError if its run would be resumed or evaluated; a warning if
/// training takes its weights only. there: the origin of the weights. recipe: the resolved recipe
/// of this run; may be empty.
void check_network(const StartingPoint& start, const Provenance& there, Block& network,
                   const TrainerOptions& options, bool trains, const std::string& recipe);

/// The problem if the data are not split as for the checkpoint; else empty.
std::string split_problem(const std::string& checkpoints_recipe, const SplitOptions& split);

/// The problem if the data differ from the checkpoint's; empty if they are the same or not known.
/// digest: Loader::digest().
std::string other_data(const Checkpoint& checkpoint, const std::string& digest,
                       const SplitOptions& split);

/// The run that is to be resumed. Members are empty if not known.
struct RunNow {
  std::string recipe;  ///< resolved
  /// Class names of the training data; empty for target values.
  std::vector<std::string> class_names;
  std::string data;  ///< Loader::digest()
};

/// UserError if the checkpoint's run cannot be resumed with this optimizer, split or classes, or in
/// mid-epoch with epochs of another length. Warns of other data, and of other epochs after an
/// epoch's end.
void check_goes_on(const StartingPoint& start, const Checkpoint& checkpoint,
                   const TrainerOptions& options, const RunLength& run_length, const RunNow& now);

}  // namespace composer
