#include "composer/run/starting_point.h"

#include "base/error.h"
#include "base/log.h"
#include "base/params/kinds.h"
#include "base/remote/fetched.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/checkpoint_store.h"
#include "composer/checkpoint/dcp.h"
#include "composer/checkpoint/weights.h"
#include "composer/recipe/recipe.h"
#include "nn/distributed/job_store.h"
#include "nn/network/outline.h"

namespace composer {
namespace {

std::string text_of(SplitOptions split) { return one_line(write_fields(collect(split))); }

/// How to start from the checkpoint's weights if its run cannot be resumed.
std::string new_run_from(const StartingPoint& start) {
  return "to start a new one from its weights, give " +
         (start.own ? "--load_path " + start.path.string() +
                          " --load_weights_only true and another --run_name"
                    : std::string("--load_weights_only true"));
}

/// Whether the shorter list is the beginning of the longer one.
bool begin_alike(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::equal(
      a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
}

std::string how_to_go_on(const StartingPoint& start, const std::string& as_it_began) {
  return "To go on with the run, give the " + as_it_began + "; " + new_run_from(start);
}

std::optional<std::filesystem::path> newest_of(const RunFolder& folder,
                                               const TrainerOptions& options) {
  if (options.save_remote.empty()) return newest_checkpoint(folder.checkpoints());
  CheckpointStore store(options.save_remote, folder.run_name(), options.remote);
  return newest_checkpoint(folder.checkpoints(), store);
}

/// The checkpoint for autoresume: the newest of the run's folder, or a newer one of save_remote,
/// which is copied to the folder; empty without one. Cleans up after a kill.
std::string take_newest(const RunFolder& folder, const TrainerOptions& options) {
  const auto newest = newest_of(folder, options);
  if (!newest) return "";
  tidy_checkpoints(*newest);
  return *newest;
}

}  // namespace

void check_load_path(const std::string& text, const RemoteOptions& remote) try {
  namespace fs = std::filesystem;
  const fs::path path = fetched(text, remote);
  if (path.empty()) return;
  std::error_code error;
  if (!path.has_filename() && fs::is_regular_file(path.parent_path(), error))
    throw UserError("load_path: " + text + ": is a file; leave out the / at its end");
  const auto found = fs::status(path, error);
  if (found.type() == fs::file_type::not_found)
    throw UserError("load_path: " + text + " does not exist");
  if (error) throw UserError("load_path: " + text + " cannot be read: " + error.message());
  if (!fs::is_directory(found) || fs::exists(path / "manifest.json", error)) return;
  if (weights_file(path) != path || is_dcp_folder(path)) return;
  if (const auto meant = latest_below(path))
    throw UserError("load_path: " + text + " is no checkpoint; did you mean " + meant->string() +
                    "?");
  throw UserError("load_path: " + text +
                  " is no checkpoint: it has no manifest.json, and no export: it has no " +
                  exported_weights);
} catch (const UserError& error) {
  if (!is_remote(text)) throw;
  throw UserError("load_path: " + std::string(error.what()));
}

TrainerOptions taken_up(TrainerOptions options, const RankEnvironment& environment) {
  if (environment.restart == 0 || options.run_dir.empty()) return options;
  const auto folder = told_run_folder(environment);
  if (!folder) return options;
  if (options.run_name.empty()) options.run_name = folder->filename().string();
  options.autoresume = true;
  return options;
}

bool goes_on(const TrainerOptions& options) {
  return options.autoresume && !options.run_dir.empty() && !options.run_name.empty() &&
         has_checkpoint(
             RunFolder(options.run_dir, options.run_name, /*resume=*/true).checkpoints());
}

StartingPoint starting_point(const TrainerOptions& options, bool trains,
                             const std::filesystem::path& newest) {
  if (!newest.empty()) {
    if (!options.load_path.empty())
      log::info("load_path: not loaded, for the run goes on from " + newest.string());
    return {newest, /*everything=*/true, /*own=*/true};
  }
  StartingPoint start{weights_file(fetched(options.load_path, options.remote))};
  start.everything = !options.load_weights_only && trains && is_checkpoint(start.path);
  if (start.everything && !options.load_ignore.empty())
    throw UserError("load_ignore: needs load_weights_only true: a resumption takes everything of " +
                    start.path.string());
  return start;
}

std::filesystem::path find_own_checkpoint(const TrainerOptions& options) {
  try {
    RunFolder(options.run_dir, options.run_name, options.autoresume);
  } catch (const UserError& error) {
    log::warn("training would be refused: " + std::string(error.what()));
  }
  const RunFolder folder(options.run_dir, options.run_name, /*resume=*/true);
  if (!options.autoresume || !folder.kept()) return {};
  if (!options.save_remote.empty())
    log::warn("save_remote: a newer checkpoint there would be gone on from; a plan does not look");
  return find_whole_checkpoint(folder.checkpoints()).value_or("");
}

StartingPoint find_starting_point(const TrainerOptions& options, bool trains,
                                  const RunFolder& folder, const Ranks& ranks) {
  const bool looks = options.autoresume && trains;
  std::string newest;
  if (looks && ranks.first()) newest = take_newest(folder, options);
  if (looks) newest = ranks.broadcast(newest);
  StartingPoint start;
  std::string problem;
  try {
    start = starting_point(options, trains, newest);
    if (!start.path.empty() && !std::filesystem::exists(start.path))
      problem = (start.own ? "run_dir: " : "load_path: ") + start.path.string() +
                " does not exist" + (start.own ? "; all ranks must see the same folder" : "");
  } catch (const std::exception& error) {
    if (ranks.alone()) throw;
    problem = error.what();
  }
  const auto problems = ranks.gather(problem);
  for (size_t rank = 0; rank < problems.size(); ++rank)
    if (!problems[rank].empty())
      throw UserError((ranks.alone() ? "" : "rank " + std::to_string(rank) + ": ") +
                      problems[rank]);
  const auto log = folder.path() / "metrics.jsonl";
  std::error_code none;
  if (looks && ranks.first() && folder.kept() && !start.everything &&
      std::filesystem::exists(log, none))
    log::warn("run_dir: " + folder.checkpoints().string() +
              " has no checkpoint to go on from: the run begins anew, and " + log.string() +
              " is written anew");
  return start;
}

void check_network(const StartingPoint& start, const Provenance& there, Block& network,
                   const TrainerOptions& options, bool trains, const std::string& recipe) {
  const auto& [path, everything, own] = start;
  if (there.network.empty()) return;
  const auto ignored = everything ? std::vector<std::string>() : options.load_ignore;
  const auto ours = outline(network);
  const auto all = differences(there.network, ours, ignored);
  const auto layers = everything ? all : differences(in_use(there.network), in_use(ours), ignored);
  if (layers.empty() && !all.empty())
    log::info(path.string() + ": " + std::to_string(all.size()) +
              (all.size() == 1 ? " layer differs" : " layers differ") +
              " only in what training does, which is left out: " + all.front());
  if (layers.empty()) return;
  constexpr size_t shown = 3;
  auto lines = model_changes(there.recipe, recipe);
  lines.insert(lines.end(), layers.begin(),
               layers.begin() + static_cast<std::ptrdiff_t>(std::min(shown, layers.size())));
  const auto problem = path.string() + ": is of another network (" + std::to_string(layers.size()) +
                       (layers.size() == 1 ? " layer differs): " : " layers differ): ") +
                       joined(lines, "; ") + (layers.size() > shown ? "; ..." : ".");
  const bool fresh_training = trains && !everything;
  if (!options.load_strict || fresh_training) return log::warn(problem);
  throw UserError(problem + " " +
                  (everything ? how_to_go_on(start, "model and algorithms that it began with")
                              : "Without -f, eval and predict take the checkpoint's own recipe; "
                                "--load_strict false uses the weights in this network"));
}

std::string split_problem(const std::string& checkpoints_recipe, const SplitOptions& split) {
  if (checkpoints_recipe.empty()) return "";
  const auto before = split_of(checkpoints_recipe);
  if (before == split) return "";
  return "split: the checkpoint's was " + text_of(before) + ", the recipe's is " + text_of(split) +
         ": what it was trained on would be evaluated on";
}

std::string other_data(const Checkpoint& checkpoint, const std::string& digest,
                       const SplitOptions& split) {
  if (checkpoint.data.empty() || digest.empty() || checkpoint.data == digest) return "";
  return std::string(
             "the data are not those that it was trained on: other samples, labels or order") +
         (split.val > 0 ? "; a split of them is another one, so that images that were trained on "
                          "may be evaluated on"
                        : "");
}

void check_goes_on(const StartingPoint& start, const Checkpoint& checkpoint,
                   const TrainerOptions& options, const RunLength& run_length, const RunNow& now) {
  const auto path = start.path.string();
  const auto optimizer = optimizer_of(checkpoint.recipe), ours = optimizer_of(now.recipe);
  if (!optimizer.empty() && !ours.empty() && optimizer != ours)
    throw UserError(path + ": optimizer: the checkpoint's was " + optimizer + ", the recipe's is " +
                    ours + ". " + how_to_go_on(start, "optimizer that it began with"));
  if (const auto problem = split_problem(checkpoint.recipe, options.split); !problem.empty())
    throw UserError(path + ": " + problem + ". " + how_to_go_on(start, "checkpoint's split"));
  // Classes may be appended, but not to the same data.
  if (const auto& classes = checkpoint.class_names;
      !classes.empty() && !begin_alike(classes, now.class_names) &&
      (checkpoint.data != now.data || classes.size() == now.class_names.size()))
    throw UserError(path + ": was trained on the classes " + first_few(classes) +
                    "; the data have " + first_few(now.class_names) +
                    ": the same label would mean two things. " +
                    how_to_go_on(start, "data the same classes"));
  if (const auto problem = other_data(checkpoint, now.data, options.split); !problem.empty())
    log::warn(path + ": " + problem);
  if (checkpoint.train_batch_size == run_length.batch_size &&
      checkpoint.batches_per_epoch == run_length.batches_per_epoch &&
      checkpoint.samples_per_epoch == run_length.samples_per_epoch)
    return;
  const auto text = [](int64_t size, int64_t batches) {
    return quantity(batches, "batch") + " of " + std::to_string(size) + " an epoch";
  };
  const auto problem =
      path + ": was made with " + text(checkpoint.train_batch_size, checkpoint.batches_per_epoch) +
      ", this run has " + text(run_length.batch_size, run_length.batches_per_epoch);
  if (checkpoint.time.batch_in_epoch > 0)
    throw UserError(problem + ": it can only go on from an epoch's end like this. " +
                    how_to_go_on(start, "data and train_batch_size that it began with"));
  log::warn(problem);
}

}  // namespace composer
