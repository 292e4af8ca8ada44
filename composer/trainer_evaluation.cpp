// The part of the Trainer that looks at what was learnt: evaluation and prediction.
#include <ATen/core/grad_mode.h>

#include "composer/interrupt.h"
#include "composer/trainer.h"

namespace composer {

void Trainer::evaluate_if_due(bool epoch_end) {
  if (!eval_loader_ || evaluated_batch_ == state_.time.batch || options_.eval_interval.value == 0)
    return;
  const auto& schedule = state_.schedule;
  // After an epoch's last batch: what epoch_end does to the weights is to be evaluated too.
  if (!epoch_end && state_.time.batch_in_epoch == schedule.batches_per_epoch) return;
  const auto due = [&](const Timestamp& time, bool at_epoch_end) {
    return schedule.due(options_.eval_interval, time, at_epoch_end);
  };
  auto last_batch = state_.time;
  if (epoch_end) {
    --last_batch.epoch;
    last_batch.batch_in_epoch = schedule.batches_per_epoch;
    last_batch.sample_in_epoch = schedule.samples_per_epoch;
  }
  const bool last = received_signal() == 0 && stopping();
  if (last || due(last_batch, false) || (epoch_end && due(state_.time, true))) run_evaluation();
}

Trainer::Metrics Trainer::run_evaluation() {
  if (!eval_loader_) return {};
  const at::NoGradGuard no_grad;
  wait_for_device();
  const bool training = state_.model->is_training();
  const auto batch_before = std::exchange(state_.batch, {});
  state_.model->eval();
  engine_.run(Event::eval_start, state_);
  ClassificationMetrics metrics(state_.model->num_classes());
  eval_loader_->start(0, 0);
  while (received_signal() == 0) {
    const auto batch = next_batch(*eval_loader_);
    if (!batch) break;
    state_.batch = to_device(*batch, *eval_loader_);
    engine_.run(Event::eval_batch_start, state_);
    engine_.run(Event::eval_before_forward, state_);
    forward();
    engine_.run(Event::eval_after_forward, state_);
    metrics.update(state_.outputs, state_.batch.target);
    engine_.run(Event::eval_batch_end, state_);
  }
  Metrics values;
  if (received_signal() == 0) {
    values = metrics.compute();
    for (const auto& [name, value] : values) logger_.log("metrics/eval/" + name, value);
    evaluated_batch_ = state_.time.batch;
  }
  engine_.run(Event::eval_end, state_);
  if (clock_start_ != 0) state_.time.seconds = seconds();
  logger_.commit("eval", state_.time);
  state_.batch = batch_before;
  state_.model->train(training);
  return values;
}

Trainer::Metrics Trainer::evaluate() {
  prepare();
  const InterruptGuard guard;
  return run_evaluation();
}

void Trainer::predict(Loader& loader, const Receive& receive) {
  prepare();
  const at::NoGradGuard no_grad;
  state_.model->eval();
  engine_.run(Event::predict_start, state_);
  loader.start(0, 0);
  while (const auto batch = next_batch(loader)) {
    state_.batch = to_device(*batch, loader);
    engine_.run(Event::predict_batch_start, state_);
    engine_.run(Event::predict_before_forward, state_);
    forward();
    engine_.run(Event::predict_after_forward, state_);
    receive(state_.outputs.to(at::kCPU, at::kFloat), batch->target.classes);
    engine_.run(Event::predict_batch_end, state_);
  }
  engine_.run(Event::predict_end, state_);
}

}  // namespace composer
