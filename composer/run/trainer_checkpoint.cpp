// The part of the Trainer that takes up a run where a checkpoint left it, and makes checkpoints.
#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process/interrupt.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "composer/recipe/dump.h"
#include "composer/recipe/recipe_changes.h"
#include "composer/run/remote_keys.h"
#include "composer/run/trainer.h"
#include "nn/network/divided_weights.h"
#include "nn/network/outline.h"

namespace composer {
namespace {

/// For which a run that has failed waits for its uploads, unless a signal comes.
constexpr double longest_drain_seconds = 60;

/// Gives each part of the run what it kept, which leaves `kept_parts`.
void hand_out(const std::filesystem::path& path, std::map<std::string, StateDict>& kept_parts,
              const std::vector<std::pair<std::string, Stateful*>>& parts) {
  for (const auto& [name, part] : parts) {
    const auto kept = kept_parts.extract(name);
    if (!kept) continue;
    try {
      part->load_state_dict(kept.mapped());
    } catch (const UserError& error) {
      throw UserError(path.string() + ": " + name + ": " + error.what());
    }
  }
}

}  // namespace

/// Of the run's folder, or of save_remote where that has a newer one, which is copied there.
std::optional<std::filesystem::path> Trainer::find_newest() const {
  const auto folder = folder_.checkpoints();
  if (options_.save_remote.empty()) return newest_checkpoint(folder);
  CheckpointStore store(options_.save_remote, folder_.run_name());
  return newest_checkpoint(folder, store);
}

StartingPoint Trainer::find_start() {
  use_remote_keys(options_.remote);
  std::string newest;
  if (options_.autoresume && state_.optimizer) {
    if (state_.ranks.first()) {
      lock_ = folder_.claim();
      newest = find_newest().value_or("");
      if (!newest.empty()) tidy_checkpoints(newest);
    }
    newest = state_.ranks.broadcast(newest);
  }
  StartingPoint start;
  std::string problem;
  try {
    start = starting_point(options_, state_.optimizer != nullptr, newest);
    if (!start.path.empty() && !std::filesystem::exists(start.path))
      problem = (start.own ? "run_dir: " : "load_path: ") + start.path.string() +
                " does not exist" + (start.own ? "; all ranks must see the same folder" : "");
  } catch (const std::exception& error) {
    if (state_.ranks.alone()) throw;
    problem = error.what();
  }
  const auto problems = state_.ranks.gather(problem);
  for (size_t rank = 0; rank < problems.size(); ++rank)
    if (!problems[rank].empty())
      throw UserError((state_.ranks.alone() ? "" : "rank " + std::to_string(rank) + ": ") +
                      problems[rank]);
  std::error_code none;
  if (const auto log = folder_.path() / "metrics.jsonl";
      lock_ && !start.everything && std::filesystem::exists(log, none))
    log::warn("run_dir: " + folder_.checkpoints().string() +
              " has no checkpoint to go on from: the run begins anew, and " + log.string() +
              " is written anew");
  if (start.path.empty()) return start;
  loaded_ = read_provenance(start.path);
  if (start.own) recipe_ = with_start_of(recipe_, loaded_.recipe);
  return start;
}

void Trainer::restore(const StartingPoint& start) {
  const auto& [path, everything, own] = start;
  if (path.empty()) return;
  const bool trains = state_.optimizer != nullptr;
  check_network(start, loaded_, *state_.model, options_, trains, recipe_);
  if (!everything && (trains || !is_checkpoint(path)))
    return load_weights(*state_.model, path, {options_.load_ignore, options_.load_strict});

  auto checkpoint = load_checkpoint(path);
  assign_weights(*state_.model, checkpoint.model, path.string(),
                 {{}, everything || options_.load_strict});
  if (everything) return resume(start, std::move(checkpoint));
  if (options_.split.val > 0 && options_.split.val < 1 && evaluator_.loader() != nullptr) {
    if (const auto problem = split_problem(checkpoint.recipe, options_.split); !problem.empty())
      log::warn(path.string() + ": " + problem);
    if (const auto problem = other_data(checkpoint, evaluator_.loader()->digest(), options_.split);
        !problem.empty())
      log::warn(path.string() + ": " + problem + "; --split.val 1 evaluates all of them");
  }
  state_.time = checkpoint.time;
  state_.schedule.batches_per_epoch = checkpoint.batches_per_epoch;
  state_.schedule.samples_per_epoch = checkpoint.samples_per_epoch;
  state_.schedule.batch_size = checkpoint.train_batch_size;
  hand_out(path, checkpoint.parts, checkpoint_parts());
}

/// Takes up the run where the checkpoint left it; the weights are in the model already.
void Trainer::resume(const StartingPoint& start, Checkpoint checkpoint) {
  const auto& path = start.path;
  for (const auto& change : recipe_changes(checkpoint.recipe, recipe_)) log::info(change);
  const bool values = state_.model->objective().takes_values();
  check_goes_on(start, checkpoint, options_, state_.schedule,
                {recipe_, values ? std::vector<std::string>() : state_.class_names, data_digest_});
  const auto device = c10::DeviceTypeName(state_.device.type(), /*lower_case=*/true);
  if (!checkpoint.device.empty() && checkpoint.device != device)
    checkpoint.differences.push_back("was written on device " + checkpoint.device + ", this is " +
                                     device);
  for (const auto& difference : checkpoint.differences)
    log::warn(path.string() + ": " + difference +
              ": the run goes on, but not bit by bit as it would have there");
  state_.optimizer->load_state_dict(checkpoint.optimizer);
  state_.time = checkpoint.time;
  state_.schedule.take_up(state_.time);
  evaluator_.set_evaluated_batch(checkpoint.evaluated_batch);
  if (checkpoint.seed != state_.seed)
    log::warn("seed: the checkpoint's was " + std::to_string(checkpoint.seed) +
              ", the recipe's is " + std::to_string(state_.seed) +
              ": the run goes on with other random draws");
  if (options_.grad_accum.automatic) {
    state_.grad_accum = checkpoint.grad_accum;
  } else if (checkpoint.grad_accum != state_.grad_accum) {
    log::warn("grad_accum: the checkpoint's was " + std::to_string(checkpoint.grad_accum) +
              ", the recipe's is " + std::to_string(state_.grad_accum) +
              ": the run goes on, but not bit by bit as it would have");
  }
  if (!start.own) checkpoint.parts.erase("save_best");  // its checkpoint is in another folder
  hand_out(path, checkpoint.parts, checkpoint_parts());
  for (const auto& [name, state] : checkpoint.parts)
    log::warn(path.string() + ": holds the state of " + name + ", which this run does not have");
  log::info("resumed from " + path.string());
  if (start.own) saved_batch_ = state_.time.batch;
}

std::vector<std::pair<std::string, Stateful*>> Trainer::checkpoint_parts() {
  std::vector<std::pair<std::string, Stateful*>> parts;
  for (const auto& algorithm : engine_.algorithms())
    parts.emplace_back(path_of(ChoiceKey::algorithms, algorithm.name), algorithm.component.get());
  for (const auto& callback : engine_.callbacks())
    parts.emplace_back(path_of(ChoiceKey::callbacks, callback.name), callback.component.get());
  parts.emplace_back("scaler", &step_->scaler());
  parts.emplace_back("train_metrics", &step_->metric());
  parts.emplace_back("save_best", &best_);
  for (auto* const evaluator : evaluators())
    parts.emplace_back("evaluators." + evaluator->set(), evaluator);
  return parts;
}

Checkpoint Trainer::snapshot() {
  Checkpoint checkpoint;
  checkpoint.time = state_.time;
  checkpoint.evaluated_batch = evaluator_.evaluated_batch();
  checkpoint.seed = state_.seed;
  checkpoint.grad_accum = state_.grad_accum;
  checkpoint.train_batch_size = state_.schedule.batch_size;
  checkpoint.batches_per_epoch = state_.schedule.batches_per_epoch;
  checkpoint.samples_per_epoch = state_.schedule.samples_per_epoch;
  checkpoint.recipe = recipe_;
  checkpoint.device = c10::DeviceTypeName(state_.device.type(), /*lower_case=*/true);
  checkpoint.precision = name(state_.precision);
  checkpoint.network = outline(*state_.model);
  checkpoint.class_names = state_.class_names;
  checkpoint.data = data_digest_;
  checkpoint.model = model_tensors(*state_.model);
  if (state_.divided_weights)
    for (const auto& item : state_.model->named_parameters())
      if (const auto owner = state_.divided_weights->owner(item.value()))
        checkpoint.model_holders[item.key()] = *owner;
  checkpoint.optimizer = state_.optimizer->state_dict();
  for (const auto& [name, part] : checkpoint_parts())
    if (auto state = part->state_dict(); !state.empty()) checkpoint.parts[name] = std::move(state);
  return checkpoint;
}

void Trainer::save_if_asked() {
  if (!engine_.control().take_checkpoint_request()) return;
  save();
  requests_.serve("checkpoint");
  if (!writer_ || !writer_->busy()) requests_.answer("checkpoint", saved());
}

Answer Trainer::saved_as(const std::string& name) const {
  const auto kept = options_.save_num_checkpoints_to_keep;
  return {true,
          "saved as checkpoint " + name +
              (kept < 0 ? ""
                        : "; only the newest " + std::to_string(kept) +
                              (options_.save_best.empty() ? "" : " and the best") + " are kept")};
}

Answer Trainer::saved() const {
  const auto name = checkpoint_name(state_.time);
  if (saved_batch_ == state_.time.batch) return saved_as(name);
  return {false, "there is no checkpoint " + name + ": " + save_problem_};
}

void Trainer::save(bool replace, bool best) {
  if ((saved_batch_ == state_.time.batch && !replace) || !folder_.kept()) return;
  RECORD_USER_SCOPE("checkpoint");
  wait_for_device();
  const double begin = steady_seconds();
  logger_.commit("save", state_.time);
  logger_.flush();
  check_loss();
  finish_save();
  share_clock();
  state_.ranks.broadcast(state_.model->buffers());
  writer_->start(snapshot(), {replace, best});
  saved_batch_ = state_.time.batch;
  if (!options_.save_async) finish_save();
  logger_.log(std::string(checkpoint_cost), steady_seconds() - begin);
  logger_.commit("save", state_.time);
}

void Trainer::save_if_best(const Metrics& metrics) {
  const auto found = std::ranges::find(metrics, options_.save_best, &Metrics::value_type::first);
  if (found == metrics.end()) return;
  // One under way may fail, and was not the best then.
  if (auto lower = best_before_;
      writer_ && writer_->busy() && lower.take(found->first, found->second))
    finish_save();
  const auto before = best_;
  if (!best_.take(options_.save_best, found->second)) return;
  best_before_ = before;
  if (saved_batch_ != state_.time.batch)
    save(/*replace=*/false, /*best=*/true);
  else if (state_.ranks.first())
    mark_best();
}

void Trainer::mark_best() {
  const auto name = checkpoint_name(state_.time);
  mark_best_checkpoint(folder_.checkpoints(), name);
  if (uploads_) uploads_->mark_best(name);
}

void Trainer::check_store() const {
  const bool goes_on = saved_batch_ >= 0;
  if (options_.save_remote.empty() || !folder_.kept() || goes_on) return;
  std::string problem;
  if (state_.ranks.first()) try {
      CheckpointStore store(options_.save_remote, folder_.run_name());
      if (!store.names().empty())
        problem = "run_name: " + store.text() + " has checkpoints already" +
                  (options_.autoresume
                       ? ", none of which can be used; give another --run_name"
                       : "; give --autoresume true to go on with the run, or another --run_name");
    } catch (const std::exception& error) {
      log::warn("save_remote: whether there are checkpoints of this run_name is not known: " +
                std::string(error.what()));
    }
  problem = state_.ranks.broadcast(problem);
  if (!problem.empty()) throw UserError(problem);
}

/// The checkpoint that the run goes on from may have been made just before it was killed.
void Trainer::open_uploads() {
  uploads_ = std::make_unique<CheckpointUploads>(
      CheckpointStore(options_.save_remote, folder_.run_name(), /*outlasts_signal=*/true),
      folder_.checkpoints(), options_.save_num_checkpoints_to_keep);
  if (saved_batch_ != state_.time.batch || state_.time.batch == 0) return;
  const auto name = checkpoint_name(state_.time);
  std::error_code none;
  const auto best = std::filesystem::read_symlink(folder_.checkpoints() / "best", none);
  uploads_->add_missing(name, best == name);
}

void Trainer::finish_uploads() {
  bool told = false;
  // However long it takes, the other ranks are answered within their time limit.
  while (!state_.ranks.all(!uploads_ || uploads_->finish(std::chrono::seconds(told ? 1 : 0)))) {
    if (uploads_ && !told) log::info("waiting until checkpoints are in " + options_.save_remote);
    told = true;
  }
  check_uploads();
}

void Trainer::give_up_uploads(const RunEnd& end, bool tells) {
  if (!uploads_) return;
  using std::chrono::milliseconds;
  if (!uploads_->finish(milliseconds(0))) {
    // Other ranks wait for this one, and are not to fail before it does.
    const double most = state_.ranks.alone()
                            ? longest_drain_seconds
                            : std::min(longest_drain_seconds, options_.dist_timeout / 2);
    if (tells) log::error(end.message);
    log::info("waiting for " + std::to_string(std::lround(most)) +
              " s at most until checkpoints are in " + options_.save_remote);
    const int signal = received_signal();
    const double late = steady_seconds() + most;
    while (!uploads_->finish(milliseconds(100)) && steady_seconds() < late &&
           received_signal() == signal) {
    }
    uploads_->give_up();
  }
  if (const auto problem = uploads_->problem()) log::warn(*problem);
  uploads_.reset();
}

void Trainer::check_uploads() {
  const auto problem = uploads_ ? uploads_->problem() : std::nullopt;
  if (!problem) return;
  // After a signal the run is interrupted, not failed: who started it is to start it again.
  const bool interrupted = signal_ != 0 || received_signal() != 0;
  if (options_.on_save_error == "error" && !interrupted) throw RunError(*problem);
  log::warn(*problem);
}

void Trainer::finish_save() {
  if (writer_) conclude(writer_->wait());
}

void Trainer::conclude(const std::optional<SaveOutcome>& outcome) {
  if (!outcome) return;
  const auto& problem = outcome->problem;
  requests_.answer("checkpoint",
                   problem.empty()
                       ? saved_as(outcome->name)
                       : Answer{false, "there is no checkpoint " + outcome->name + ": " + problem});
  if (problem.empty()) {
    if (uploads_) uploads_->add(outcome->name, outcome->best);
    return;
  }
  saved_batch_ = -1;
  save_problem_ = problem;
  if (outcome->best) best_ = best_before_;
  const bool own = outcome->rank == state_.ranks.rank();
  const auto text = own ? problem : "rank " + std::to_string(outcome->rank) + ": " + problem;
  if (outcome->not_finite ? options_.on_nan == "stop" : options_.on_save_error == "error") {
    if (own) throw RunError(text);
    throw PeerError(text);
  }
  if (state_.ranks.first()) log::warn(text);
}

}  // namespace composer
