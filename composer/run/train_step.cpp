#include "composer/run/train_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include "base/error.h"
#include "base/log.h"
#include "nn/device/device.h"
#include "nn/device/snapshot.h"
#include "nn/network/layer.h"
#include "nn/network/sharded_parameters.h"
#include "nn/optimization/gradient_norm.h"
#include "nn/optimization/optimizer.h"

namespace composer {

namespace {

int64_t divided_up(int64_t number, int64_t by) { return (number + by - 1) / by; }

/// Splits `batch` into at most `parts` parts, equally many on every rank.
std::vector<Batch> split(const Batch& batch, int64_t parts, const Ranks& ranks) {
  if (parts == 1) return {batch};
  return batch.split(std::min(parts, std::ranges::min(ranks.gather(batch.samples()))));
}

std::vector<at::Tensor> trained(const Optimizer& optimizer) {
  auto parameters = optimizer.parameters();
  std::erase_if(parameters, [](const at::Tensor& parameter) { return !parameter.requires_grad(); });
  return parameters;
}

}  // namespace

TrainStep::TrainStep(State& state, Engine& engine, double grad_clip_norm,
                     const GradientSyncOptions& sync)
    : state_(state),
      engine_(engine),
      grad_clip_norm_(grad_clip_norm),
      sync_(state.ranks, sync),
      scaler_(state.precision == Precision::amp_fp16, state.device),
      metric_(state.device, state.ranks.of_samples()),
      repeats_(sync.when_asked) {}

void TrainStep::replay_by(std::unique_ptr<CapturedSteps> graphs) {
  graphs_ = std::move(graphs);
  if (graphs_ && repeats_) graphs_->hand_on_out_of_memory();
}

at::Tensor TrainStep::run() {
  const Batch whole = state_.batch;
  const int64_t first_sample = state_.first_sample;
  const auto parts = split(whole, state_.updates, state_.ranks);
  const auto samples = [&](const Batch& batch) {
    return static_cast<double>(parts.size() == 1 ? batch.samples()
                                                 : state_.ranks.sum(batch.samples()));
  };
  const double total = samples(whole);
  at::Tensor loss;
  for (const auto& part : parts) {
    const auto share = samples(part) / total;
    const auto part_loss = update_on(part);
    loss = loss.defined() ? loss + part_loss * share : part_loss * share;
  }
  state_.ranks.sum(loss);
  state_.batch = whole;
  state_.first_sample = first_sample;
  return loss;
}

/// Does one update of the weights; returns the mean loss over the part.
at::Tensor TrainStep::update_on(const Batch& part) {
  const int64_t first_sample = state_.first_sample;
  state_.batch = part;
  engine_.run(Event::before_train_batch, state_);
  const auto loss = repeats_ ? repeated_update() : replayed_update();
  state_.first_sample = first_sample + part.samples();
  return loss;
}

at::Tensor TrainStep::replayed_update() {
  return graphs_ ? graphs_->run(state_, [this] { return update(); }) : update();
}

/// Repeats an update with more microbatches until memory suffices.
at::Tensor TrainStep::repeated_update() {
  const auto batch = state_.batch;
  const int64_t first_sample = state_.first_sample;
  Snapshot buffers(state_.model->buffers());
  const auto generators = generator_states(state_.device);
  for (bool again = false;; again = true) {
    std::string problem;
    updating_ = false;
    try {
      return replayed_update();
    } catch (const LayerError& error) {
      const bool cut_to_one = batch.samples() > 1 && state_.batch.samples() == 1;
      if (!again && !cut_to_one) throw;
      throw RunError(
          "grad_accum: auto: there is no memory for larger microbatches, and these are "
          "too small: " +
          std::string(error.what()));
    } catch (const NotRecorded& error) {
      problem = error.what();
    } catch (const std::exception& error) {
      if (updating_ || !is_out_of_memory(error)) throw;
      problem = error.what();
    }
    state_.batch = batch;
    state_.first_sample = first_sample;
    forget_passes();
    buffers.restore();
    set_generator_states(state_.device, generators);
    split_further(problem.substr(0, problem.find('\n')));
  }
}

/// Drops the results of a failed step: freeing its autograd graph frees all saved tensors.
void TrainStep::forget_passes() {
  state_.outputs = state_.loss = at::Tensor();
  passes_.clear();
  sums_.clear();
  state_.optimizer->zero_grad();
  if (graphs_) graphs_->forget();
  free_unused_memory(state_.device);
}

/// The number of microbatches of an update with `samples` samples on a rank. If memory decides, a
/// smaller batch has no more microbatches than the size of a whole batch's largest microbatch
/// requires.
int64_t TrainStep::microbatches_of(int64_t samples, int64_t grad_accum) const {
  const int64_t most = divided_up(grad_accum, state_.updates);
  if (!repeats_) return most;
  const int64_t whole = state_.run_length.batch_size / (state_.ranks.size() * state_.updates);
  const int64_t largest = samples < whole ? largest_microbatch(grad_accum) : 1;
  return std::min(most, divided_up(samples, largest));
}

/// The number of samples in the largest microbatch of a whole batch, on a rank.
int64_t TrainStep::largest_microbatch(int64_t grad_accum) const {
  return divided_up(divided_up(state_.run_length.batch_size, state_.ranks.size()), grad_accum);
}

void TrainStep::split_further(const std::string& problem) {
  const int64_t samples = std::ranges::max(state_.ranks.gather(state_.batch.samples()));
  const int64_t before = microbatches_of(samples, state_.grad_accum);
  if (before >= samples)
    throw RunError(
        "grad_accum: auto: a microbatch of one sample needs more memory than there is (" + problem +
        "); train smaller images or a smaller network, or add the algorithm "
        "activation_checkpointing");
  while (microbatches_of(samples, state_.grad_accum) == before) state_.grad_accum *= 2;
  if (!state_.ranks.first()) return;
  const int64_t largest =
      std::max(largest_microbatch(state_.grad_accum),
               divided_up(samples, microbatches_of(samples, state_.grad_accum)));
  log::warn("grad_accum: auto: out of memory at batch " + std::to_string(state_.time.batch + 1) +
            " (" + problem + "): it is done again, and from here on batches are split into " +
            std::to_string(state_.grad_accum) + " microbatches, of at most " +
            std::to_string(largest) + (largest == 1 ? " sample" : " samples") + " on a rank");
}

/// Does the part of an update that may be replayed.
at::Tensor TrainStep::update() {
  const auto whole = state_.batch;
  const int64_t first_sample = state_.first_sample;
  updating_ = false;
  {
    RECORD_USER_SCOPE("zero_grad");
    state_.optimizer->zero_grad();
  }
  passes_.clear();  // of a step that failed
  sums_.clear();
  if (state_.sharded_parameters) state_.sharded_parameters->begin_update();
  const auto parts = microbatches_of(whole.samples(), state_.grad_accum);
  // With repeats_, ranks wait for each other only after their passes, and may have different
  // numbers of passes.
  const auto loss =
      passes_of_all(repeats_ ? whole.split(parts) : split(whole, parts, state_.ranks));
  state_.batch = whole;
  state_.first_sample = first_sample;
  updating_ = true;
  update_weights();
  passes_.clear();
  {
    RECORD_USER_SCOPE("metrics");
    const at::NoGradGuard no_grad;
    for (const auto& [sum, samples] : sums_) metric_.add(sum, samples);
    sums_.clear();
  }
  return loss;
}

/// Does the passes of this rank, then sums the gradients of all ranks: no rank waits for another
/// one within its passes, which may run out of memory.
at::Tensor TrainStep::passes_of_all(const std::vector<Batch>& microbatches) {
  if (!repeats_ || state_.ranks.alone()) return forward_backward(microbatches);
  at::Tensor loss;
  std::string problem;
  bool failed = false;
  try {
    loss = forward_backward(microbatches);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    failed = true;
    problem = error.what();
    state_.outputs = state_.loss = at::Tensor();
    passes_.clear();
  }
  const auto failures = state_.ranks.gather(static_cast<int64_t>(failed));
  if (const auto first = std::ranges::find(failures, 1); first != failures.end())
    throw OutOfMemory(failed ? problem : "of rank " + std::to_string(first - failures.begin()));
  updating_ = true;  // the other ranks no longer check for failures of this rank
  sync_.sum(trained(*state_.optimizer));
  return loss;
}

at::Tensor TrainStep::forward_backward(const std::vector<Batch>& microbatches) {
  const auto total = static_cast<double>(state_.ranks.sum(state_.batch.samples()));
  at::Tensor total_loss;
  for (const auto& microbatch : microbatches) {
    const double share = static_cast<double>(microbatch.samples()) / total;
    state_.batch = microbatch;
    engine_.run(Event::before_forward, state_);
    const auto input = state_.batch.input;
    state_.outputs = state_.network().forward(input);
    engine_.run(Event::after_forward, state_);
    engine_.run(Event::before_loss, state_);
    passes_.push_back({input, state_.batch.target, state_.first_sample, share});
    state_.loss = loss_of(state_.outputs, state_.batch.target, share);
    engine_.run(Event::after_loss, state_);
    {
      RECORD_USER_SCOPE("metrics");
      const at::NoGradGuard no_grad;
      sums_.emplace_back(state_.model->objective().running_sum(state_.outputs, state_.batch.target),
                         state_.batch.samples());
    }
    engine_.run(Event::before_backward, state_);
    const auto loss = state_.loss.detach();
    total_loss = total_loss.defined() ? total_loss + loss : loss;
    backward(state_.loss, &microbatch == &microbatches.back());
    engine_.run(Event::after_backward, state_);
    state_.first_sample += microbatch.samples();
  }
  return total_loss;
}

at::Tensor TrainStep::loss_of(const at::Tensor& outputs, const Target& target, double share) const {
  RECORD_USER_SCOPE("loss");
  const auto loss = state_.network().loss(outputs, target);
  return share == 1 ? loss : loss * share;
}

/// last: the update's last microbatch.
void TrainStep::backward(const at::Tensor& loss, bool last) {
  RECORD_USER_SCOPE("backward");
  const auto scaled = scaler_.enabled() ? scaler_.scale(loss) : loss;
  if (state_.sharded_parameters) {
    state_.sharded_parameters->before_backward();
    scaled.backward();
    state_.sharded_parameters->after_backward(last);
    return;
  }
  if (!state_.ranks.alone()) sync_.before_backward(trained(*state_.optimizer), scaled, last);
  scaled.backward();
  sync_.after_backward();
}

int64_t TrainStep::sent_bytes() const {
  return state_.sharded_parameters ? state_.sharded_parameters->sent_bytes() : sync_.bytes();
}

void TrainStep::recompute_gradients() {
  const at::AutoGradMode with_grad(true);
  const auto batch = std::exchange(state_.batch, {});
  const int64_t first_sample = state_.first_sample;
  state_.optimizer->zero_grad();
  for (const auto& pass : passes_) {
    state_.batch = {pass.input, pass.target};
    state_.first_sample = pass.first_sample;
    backward(loss_of(state_.network().forward(pass.input), pass.target, pass.share),
             &pass == &passes_.back());
  }
  sync_.sum(trained(*state_.optimizer));
  state_.batch = batch;
  state_.first_sample = first_sample;
  const at::NoGradGuard no_grad;
  finish_gradients();
}

/// Unscales the gradients and clips them.
void TrainStep::finish_gradients() {
  if (!scaler_.enabled() && grad_clip_norm_ <= 0) return;
  RECORD_USER_SCOPE("finish_gradients");
  auto gradients = state_.optimizer->gradients();
  if (scaler_.enabled()) scaler_.unscale(gradients, state_.gradient_ranks());
  if (grad_clip_norm_ > 0)
    clip_global_norm(gradients, grad_clip_norm_, state_.gradient_ranks(), state_.device);
}

void TrainStep::update_weights() {
  const at::NoGradGuard no_grad;
  finish_gradients();
  engine_.run(Event::after_train_batch, state_);
  RECORD_USER_SCOPE("optimizer");
  state_.optimizer->step(scaler_.found_inf());
  if (scaler_.enabled()) scaler_.update();
}

}  // namespace composer
