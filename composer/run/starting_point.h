// What a run starts from: fresh weights, those of load_path, or a checkpoint of its own folder. The
// one place that looks for checkpoints in the folder of a run that is resumed.
#pragma once

#include <filesystem>
#include <string>

#include "base/files/run_folder.h"
#include "base/rank_environment.h"
#include "composer/checkpoint/checkpoint.h"
#include "composer/checkpoint/provenance.h"
#include "composer/recipe/options.h"
#include "nn/distributed/ranks.h"
#include "nn/network/layer.h"

namespace composer {

struct StartingPoint {
  std::filesystem::path path;  ///< empty: fresh weights
  bool everything = false;     ///< the run of a checkpoint goes on
  bool own = false;            ///< the checkpoint is in this run's folder
};

/// UserError when `path` is neither empty nor something that weights can be loaded from. What is
/// remote is fetched (base/remote/fetched.h).
void check_load_path(const std::string& path);

/// The options of a rank; one that was started again goes on with its run.
TrainerOptions taken_up(TrainerOptions options, const RankEnvironment& environment);

/// Whether a checkpoint in the run's own folder is gone on from.
bool goes_on(const TrainerOptions& options);

/// newest: the checkpoint that autoresume found; empty: none. trains: rather than evaluates.
/// UserError where the options do not go together. There may be nothing at the path.
StartingPoint starting_point(const TrainerOptions& options, bool trains,
                             const std::filesystem::path& newest);

/// Looks in `folder`, which the first rank has claimed, and in save_remote for a checkpoint to
/// resume training from, else at load_path. A newer checkpoint of save_remote is copied to the
/// folder. All ranks call it, with the same options. UserError on all ranks as newest_checkpoint()
/// and starting_point(), and where a rank does not see the files.
StartingPoint find_starting_point(const TrainerOptions& options, bool trains,
                                  const RunFolder& folder, const Ranks& ranks);

/// For a plan: the checkpoint in its own folder that training would be resumed from; empty: none.
/// Changes nothing there, and warns where training would be refused, and that it does not look in
/// save_remote.
std::filesystem::path find_own_checkpoint(const TrainerOptions& options);

/// Weights of another network may fit by name and shape (blurpool), and be wrong. UserError where
/// its run would go on or be evaluated; a warning where training takes its weights alone. there,
/// recipe: what the weights tell of themselves; the resolved recipe of this run, may be empty.
void check_network(const StartingPoint& start, const Provenance& there, Block& network,
                   const TrainerOptions& options, bool trains, const std::string& recipe);

/// What is wrong where the data are not split as they were for a checkpoint; empty if nothing.
std::string split_problem(const std::string& checkpoints_recipe, const SplitOptions& split);

/// What is said of data that others than the checkpoint's took the place of; empty where they are
/// the same or not known. digest: Loader::digest().
std::string other_data(const Checkpoint& checkpoint, const std::string& digest,
                       const SplitOptions& split);

/// The run that is to go on. Each part may be empty where it is not known.
struct RunNow {
  std::string recipe;                    ///< resolved
  std::vector<std::string> class_names;  ///< of the data that are trained on; none of values
  std::string data;                      ///< Loader::digest()
};

/// UserError where the run of the checkpoint cannot go on with this optimizer, split or classes,
/// or in mid-epoch with other epochs; a warning for other data, and other epochs after an epoch's
/// end.
void check_goes_on(const StartingPoint& start, const Checkpoint& checkpoint,
                   const TrainerOptions& options, const RunLength& run_length, const RunNow& now);

}  // namespace composer
