// The part of the Trainer that takes up a run where a checkpoint left it, and makes checkpoints.
#include <filesystem>

#include "composer/error.h"
#include "composer/logging/log.h"
#include "composer/storage/weights.h"
#include "composer/trainer.h"

namespace composer {

void Trainer::restore() {
  namespace fs = std::filesystem;
  fs::path path = options_.load_path;
  bool everything = !options_.load_weights_only && state_.optimizer && fs::is_directory(path);
  if (options_.autoresume && state_.optimizer) {
    if (auto newest = newest_checkpoint(folder_.checkpoints())) {
      path = *newest;
      everything = true;
    }
  }
  if (path.empty()) return;
  if (!fs::exists(path)) throw UserError("load_path: " + path.string() + " does not exist");
  if (!everything && (state_.optimizer || !fs::is_directory(path)))
    return load_weights(*state_.model, path);

  auto checkpoint = load_checkpoint(path);
  assign_weights(*state_.model, checkpoint.model, path.string());
  if (everything) return resume(path, std::move(checkpoint));
  state_.time = checkpoint.time;
  state_.schedule.batches_per_epoch = checkpoint.batches_per_epoch;
  state_.schedule.samples_per_epoch = checkpoint.samples_per_epoch;
  state_.schedule.batch_size = checkpoint.train_batch_size;
  hand_out(checkpoint.parts);
}

/// Takes up the run where the checkpoint left it; the weights are in the model already.
void Trainer::resume(const std::filesystem::path& path, Checkpoint checkpoint) {
  for (const auto& difference : checkpoint.differences)
    log::warn(path.string() + ": " + difference +
              ": the run goes on, but not bit by bit as it would have there");
  state_.optimizer->load_state_dict(checkpoint.optimizer);
  state_.time = checkpoint.time;
  evaluated_batch_ = checkpoint.evaluated_batch;
  if (checkpoint.seed != state_.seed)
    log::warn("seed: the checkpoint's was " + std::to_string(checkpoint.seed) +
              ", the recipe's is " + std::to_string(state_.seed) +
              ": the run goes on with other random draws");
  if (checkpoint.grad_accum != state_.grad_accum)
    log::warn("grad_accum: the checkpoint's was " + std::to_string(checkpoint.grad_accum) +
              ", the recipe's is " + std::to_string(state_.grad_accum) +
              ": the run goes on, but not bit by bit as it would have");
  check_epochs(path, checkpoint);
  auto& parts = checkpoint.parts;
  hand_out(parts);
  const auto tensor = [&](const StateDict& state, const char* name) {
    const auto found = state.tensors.find(name);
    if (found == state.tensors.end())
      throw UserError(path.string() + ": has no tensor '" + name + "'");
    return found->second;
  };
  if (auto scaler = parts.extract("scaler"); scaler && scaler_.enabled())
    scaler_.load(tensor(scaler.mapped(), "scale"), tensor(scaler.mapped(), "growth_tracker"));
  if (auto metrics = parts.extract("train_metrics")) hits_.copy_(tensor(metrics.mapped(), "hits"));
  for (const auto& [name, state] : parts)
    log::warn(path.string() + ": holds the state of " + name + ", which this run does not have");
  log::info("resumed from " + path.string());
  if (path.parent_path() == folder_.checkpoints()) saved_batch_ = state_.time.batch;
}

/// Gives each component what it kept, which leaves `parts`.
void Trainer::hand_out(std::map<std::string, StateDict>& parts) {
  const auto to = [&](const auto& members, const std::string& kind) {
    for (const auto& member : members)
      if (auto found = parts.extract(kind + "." + member.name))
        member.component->load_state_dict(found.mapped());
  };
  to(engine_.algorithms(), "algorithms");
  to(engine_.callbacks(), "callbacks");
}

void Trainer::check_epochs(const std::filesystem::path& path, const Checkpoint& checkpoint) const {
  if (checkpoint.train_batch_size == schedule_.batch_size &&
      checkpoint.batches_per_epoch == schedule_.batches_per_epoch &&
      checkpoint.samples_per_epoch == schedule_.samples_per_epoch)
    return;
  const auto text = [](int64_t size, int64_t batches) {
    return std::to_string(batches) + " batches of " + std::to_string(size) + " an epoch";
  };
  const auto problem = path.string() + ": was made with " +
                       text(checkpoint.train_batch_size, checkpoint.batches_per_epoch) +
                       ", this run has " + text(schedule_.batch_size, schedule_.batches_per_epoch);
  if (checkpoint.time.batch_in_epoch > 0)
    throw UserError(
        problem +
        ": it can only go on from an epoch's end like this; keep the data and train_batch_size, or "
        "set load_weights_only");
  log::warn(problem);
}

Checkpoint Trainer::snapshot() const {
  Checkpoint checkpoint;
  checkpoint.time = state_.time;
  checkpoint.evaluated_batch = evaluated_batch_;
  checkpoint.seed = state_.seed;
  checkpoint.grad_accum = state_.grad_accum;
  checkpoint.train_batch_size = schedule_.batch_size;
  checkpoint.batches_per_epoch = schedule_.batches_per_epoch;
  checkpoint.samples_per_epoch = schedule_.samples_per_epoch;
  checkpoint.recipe = recipe_;
  checkpoint.model = model_tensors(*state_.model);
  checkpoint.optimizer = state_.optimizer->state_dict();
  const auto collect = [&](const auto& members, const std::string& kind) {
    for (const auto& member : members) {
      auto state = member.component->state_dict();
      if (!state.tensors.empty() || !state.values.empty())
        checkpoint.parts[kind + "." + member.name] = std::move(state);
    }
  };
  collect(engine_.algorithms(), "algorithms");
  collect(engine_.callbacks(), "callbacks");
  if (scaler_.enabled())
    checkpoint.parts["scaler"].tensors = {{"scale", scaler_.scale_tensor()},
                                          {"growth_tracker", scaler_.growth_tracker()}};
  checkpoint.parts["train_metrics"].tensors = {{"hits", hits_}};
  return checkpoint;
}

void Trainer::save_if_asked() {
  if (engine_.control().take_checkpoint_request()) save();
}

void Trainer::save() {
  if (saved_batch_ == state_.time.batch || !folder_.kept()) return;
  wait_for_device();
  logger_.flush();
  state_.time.seconds = seconds();
  save_checkpoint(folder_.checkpoints(), snapshot());
  keep_newest_checkpoints(folder_.checkpoints(), options_.save_num_checkpoints_to_keep);
  saved_batch_ = state_.time.batch;
}

}  // namespace composer
