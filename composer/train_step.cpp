#include "composer/train_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "composer/distributed/divided_weights.h"
#include "composer/optimization/gradient_norm.h"
#include "composer/optimization/optimizer.h"

namespace composer {

namespace {

/// `batch` in at most `parts`, as many on every rank.
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
      metric_(state.device, state.ranks.of_samples()) {}

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

/// One update of the weights; returns the mean loss over the part.
at::Tensor TrainStep::update_on(const Batch& part) {
  const int64_t first_sample = state_.first_sample;
  state_.batch = part;
  engine_.run(Event::before_train_batch, state_);
  const auto loss = graphs_ ? graphs_->run(state_, [this] { return update(); }) : update();
  state_.first_sample = first_sample + part.samples();
  return loss;
}

/// The part of an update that may be replayed.
at::Tensor TrainStep::update() {
  const auto whole = state_.batch;
  const int64_t first_sample = state_.first_sample;
  {
    RECORD_USER_SCOPE("zero_grad");
    state_.optimizer->zero_grad();
  }
  passes_.clear();  // of a step that failed
  if (state_.divided_weights) state_.divided_weights->begin_update();
  const auto parts = (state_.grad_accum + state_.updates - 1) / state_.updates;
  const auto loss = forward_backward(split(whole, parts, state_.ranks));
  state_.batch = whole;
  state_.first_sample = first_sample;
  update_weights();
  passes_.clear();
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
      metric_.add(state_.model->objective().running_sum(state_.outputs, state_.batch.target),
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

/// last: of an update's microbatches.
void TrainStep::backward(const at::Tensor& loss, bool last) {
  RECORD_USER_SCOPE("backward");
  const auto scaled = scaler_.enabled() ? scaler_.scale(loss) : loss;
  if (state_.divided_weights) {
    state_.divided_weights->before_backward();
    scaled.backward();
    state_.divided_weights->after_backward(last);
    return;
  }
  if (!state_.ranks.alone()) sync_.before_backward(trained(*state_.optimizer), scaled, last);
  scaled.backward();
  sync_.after_backward();
}

int64_t TrainStep::sent_bytes() const {
  return state_.divided_weights ? state_.divided_weights->sent_bytes() : sync_.bytes();
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
