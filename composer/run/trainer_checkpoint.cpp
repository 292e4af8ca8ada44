// The part of the Trainer that takes up a run where a checkpoint left it, and makes checkpoints.
#include <ATen/record_function.h>

#include <filesystem>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "composer/recipe/recipe.h"
#include "composer/recipe/recipe_changes.h"
#include "composer/run/trainer.h"
#include "nn/network/outline.h"
#include "nn/network/sharded_parameters.h"

namespace composer {
namespace {

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
  state_.run_length.batches_per_epoch = checkpoint.batches_per_epoch;
  state_.run_length.samples_per_epoch = checkpoint.samples_per_epoch;
  state_.run_length.batch_size = checkpoint.train_batch_size;
  hand_out(path, checkpoint.parts, checkpoint_parts());
}

/// Takes up the run where the checkpoint left it; the weights are in the model already.
void Trainer::resume(const StartingPoint& start, Checkpoint checkpoint) {
  const auto& path = start.path;
  for (const auto& change : recipe_changes(checkpoint.recipe, recipe_)) log::info(change);
  const bool values = state_.model->objective().takes_values();
  check_goes_on(start, checkpoint, options_, state_.run_length,
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
  state_.run_length.take_up(state_.time);
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
  if (start.own) session_.resumed();
}

std::vector<std::pair<std::string, Stateful*>> Trainer::checkpoint_parts() {
  std::vector<std::pair<std::string, Stateful*>> parts;
  for (const auto& algorithm : engine_.algorithms())
    parts.emplace_back(path_of(ChoiceKey::algorithms, algorithm.name), algorithm.component.get());
  for (const auto& callback : engine_.callbacks())
    parts.emplace_back(path_of(ChoiceKey::callbacks, callback.name), callback.component.get());
  parts.emplace_back("scaler", &step_->scaler());
  parts.emplace_back("train_metrics", &step_->metric());
  parts.emplace_back("save_best", &session_.best());
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
  checkpoint.train_batch_size = state_.run_length.batch_size;
  checkpoint.batches_per_epoch = state_.run_length.batches_per_epoch;
  checkpoint.samples_per_epoch = state_.run_length.samples_per_epoch;
  checkpoint.recipe = recipe_;
  checkpoint.device = c10::DeviceTypeName(state_.device.type(), /*lower_case=*/true);
  checkpoint.precision = name(state_.precision);
  checkpoint.network = outline(*state_.model);
  checkpoint.class_names = state_.class_names;
  checkpoint.data = data_digest_;
  checkpoint.model = model_tensors(*state_.model);
  if (state_.sharded_parameters)
    for (const auto& item : state_.model->named_parameters())
      if (const auto owner = state_.sharded_parameters->owner(item.value()))
        checkpoint.model_holders[item.key()] = *owner;
  checkpoint.optimizer = state_.optimizer->state_dict();
  for (const auto& [name, part] : checkpoint_parts())
    if (auto state = part->state_dict(); !state.empty()) checkpoint.parts[name] = std::move(state);
  return checkpoint;
}

void Trainer::save_if_asked() {
  if (!engine_.control().take_checkpoint_request()) return;
  save();
  session_.answer_checkpoint_requests();
}

void Trainer::save(bool replace, bool best) {
  if (!session_.saves(replace)) return;
  RECORD_USER_SCOPE("checkpoint");
  wait_for_device();
  const double begin = steady_seconds();
  logger_.commit("save", state_.time);
  logger_.flush();
  check_loss();
  session_.finish_save();
  share_clock();
  state_.ranks.broadcast(state_.model->buffers());
  session_.save(snapshot(), {replace, best});
  logger_.log(std::string(checkpoint_cost), steady_seconds() - begin);
  logger_.commit("save", state_.time);
}

}  // namespace composer
