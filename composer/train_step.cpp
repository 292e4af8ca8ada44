#include "composer/train_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include "composer/optimization/gradient_norm.h"
#include "composer/optimization/optimizer.h"

namespace composer {

TrainStep::TrainStep(State& state, Engine& engine, double grad_clip_norm)
    : state_(state),
      engine_(engine),
      grad_clip_norm_(grad_clip_norm),
      scaler_(state.precision == Precision::amp_fp16, state.device),
      accuracy_(state.device) {}

at::Tensor TrainStep::run() {
  const Batch whole = state_.batch;
  at::Tensor loss;
  for (const auto& part : whole.split(state_.updates)) {
    const auto share = static_cast<double>(part.samples()) / static_cast<double>(whole.samples());
    const auto part_loss = update_on(part);
    loss = loss.defined() ? loss + part_loss * share : part_loss * share;
  }
  state_.batch = whole;
  state_.first_sample = 0;
  return loss;
}

/// One update of the weights; returns the mean loss over the part.
at::Tensor TrainStep::update_on(const Batch& part) {
  const int64_t first_sample = state_.first_sample;
  state_.batch = part;
  engine_.run(Event::before_train_batch, state_);
  state_.optimizer->zero_grad();
  const auto whole = state_.batch;
  const auto parts = (state_.grad_accum + state_.updates - 1) / state_.updates;
  const auto loss = forward_backward(state_.batch.split(parts));
  state_.batch = whole;
  state_.first_sample = first_sample;
  update_weights();
  passes_.clear();
  state_.first_sample += part.samples();
  return loss;
}

at::Tensor TrainStep::forward_backward(const std::vector<Batch>& microbatches) {
  const auto total = static_cast<double>(state_.batch.samples());
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
    accuracy_.add(state_.outputs, state_.batch.target.classes);
    engine_.run(Event::before_backward, state_);
    const auto loss = state_.loss.detach();
    total_loss = total_loss.defined() ? total_loss + loss : loss;
    backward(state_.loss);
    engine_.run(Event::after_backward, state_);
    state_.first_sample += microbatch.samples();
  }
  return total_loss;
}

at::Tensor TrainStep::loss_of(const at::Tensor& outputs, const Target& target, double share) const {
  const auto loss = state_.network().loss(outputs, target);
  return share == 1 ? loss : loss * share;
}

void TrainStep::backward(const at::Tensor& loss) const {
  RECORD_USER_SCOPE("backward");
  (scaler_.enabled() ? scaler_.scale(loss) : loss).backward();
}

void TrainStep::recompute_gradients() {
  const at::AutoGradMode with_grad(true);
  const auto batch = std::exchange(state_.batch, {});
  const int64_t first_sample = state_.first_sample;
  state_.optimizer->zero_grad();
  for (const auto& [input, target, first, share] : passes_) {
    state_.batch = {input, target};
    state_.first_sample = first;
    backward(loss_of(state_.network().forward(input), target, share));
  }
  state_.batch = batch;
  state_.first_sample = first_sample;
  const at::NoGradGuard no_grad;
  finish_gradients();
}

/// Unscales the gradients and clips them.
void TrainStep::finish_gradients() {
  if (!scaler_.enabled() && grad_clip_norm_ <= 0) return;
  auto gradients = state_.optimizer->gradients();
  if (scaler_.enabled()) scaler_.unscale(gradients);
  if (grad_clip_norm_ > 0) clip_global_norm(gradients, grad_clip_norm_);
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
