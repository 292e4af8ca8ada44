#include "composer/callbacks/callbacks.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/network/metrics.h"
#include "nn/optimization/optimizer.h"
#include "nn/state_dict.h"

namespace composer {

void SpeedMonitor::batch_start(const State& state, Logger&, RunControl&) {
  if (!timer_) timer_.emplace(Timer::Listen::here);
  samples_.batch_start();
  waits_.batch_start();
  last_sample_ = state.time.sample;
}

void SpeedMonitor::batch_end(const State& state, Logger& logger, RunControl&) {
  const double waited_so_far = waited();
  training_ += samples_.batch_end(static_cast<double>(state.time.sample - last_sample_));
  waits_.batch_end(waited_so_far - std::exchange(last_waited_, waited_so_far));
  last_sample_ = state.time.sample;
  if (samples_.per_second() <= 0) return;
  logger.log("throughput/samples_per_sec", samples_.per_second());
  logger.log("time/wait_fraction", std::clamp(waits_.per_second(), 0.0, 1.0));
}

void SpeedMonitor::epoch_end(const State&, Logger& logger, RunControl&) {
  logger.log("wall_clock/train", training_);
}

void SpeedMonitor::eval_start(const State&, Logger&, RunControl&) {
  samples_.suspend();
  waits_.suspend();
  if (timer_) eval_waited_ = waited();
}

void SpeedMonitor::eval_end(const State&, Logger&, RunControl&) {
  samples_.resume();
  waits_.resume();
  if (timer_) last_waited_ += waited() - eval_waited_;
}

void SpeedMonitor::fit_end(const State&, Logger&, RunControl&) {
  timer_.reset();
  last_waited_ = 0;
}

StateDict SpeedMonitor::state_dict() const { return {{}, {{"training_seconds", training_}}}; }

void SpeedMonitor::load_state_dict(const StateDict& state) {
  if (const auto* seconds = state.find<double>("training_seconds")) training_ = *seconds;
}

void LrMonitor::batch_start(const State& state, Logger& logger, RunControl&) {
  logger.log("lr", state.optimizer->lr());
}

std::string CheckpointSaver::Params::check() const {
  return check_repetition("save_interval", save_interval);
}

/// A run that goes on does so from a checkpoint.
void CheckpointSaver::fit_start(const State& state, Logger&, RunControl&) {
  times_.done_at(state.time.seconds);
}

void CheckpointSaver::batch_checkpoint(const State& state, Logger&, RunControl& control) {
  save_if_due(state, control, false);
}

void CheckpointSaver::epoch_checkpoint(const State& state, Logger&, RunControl& control) {
  save_if_due(state, control, true);
}

/// Ranks have the first one's clock, and so agree.
void CheckpointSaver::save_if_due(const State& state, RunControl& control, bool epoch_end) {
  if (!times_.due(state.run_length, state.time, epoch_end)) return;
  control.request_checkpoint();
  times_.done_at(state.time.seconds);
}

std::string EarlyStopper::Params::check() const {
  return check_interval("patience", patience) + check_monitor(monitor);
}

void EarlyStopper::eval_end(const State& state, Logger&, RunControl& control) {
  const auto found = state.eval_metrics.find(params_.monitor);
  if (found == state.eval_metrics.end()) return;  // another set's, or a signal ended it
  const double value = found->second;
  if (!best_ || improves(params_.monitor, value, best_->value, params_.min_delta)) {
    best_ = {value, state.time};
    return;
  }
  stop_if_old(state, control);
}

void EarlyStopper::init(const State& state, Logger&, RunControl&) {
  check_is_evaluated("callbacks.early_stopper.monitor", params_.monitor,
                     state.model->metric_names(), state.evaluation_sets);
}

void EarlyStopper::fit_start(const State& state, Logger&, RunControl& control) {
  if (stopped_) stop_if_old(state, control);
}

void EarlyStopper::stop_if_old(const State& state, RunControl& control) {
  const auto amount = [&](const Timestamp& time) {
    const auto unit = params_.patience.unit;
    return unit == TimeUnit::epoch   ? time.epoch
           : unit == TimeUnit::batch ? time.batch
                                     : time.sample;
  };
  const auto age = static_cast<double>(amount(state.time) - amount(best_->time));
  stopped_ = age > params_.patience.value;
  if (stopped_)
    control.request_stop("early_stopper: " + params_.monitor + " has not improved for more than " +
                         params_.patience.str() + "; its best is " + std::to_string(best_->value) +
                         ", at batch " + std::to_string(best_->time.batch));
}

void EarlyStopper::fit_end(const State&, Logger&, RunControl&) {
  if (!best_) log::warn("callbacks.early_stopper: had no effect: the run has had no evaluation");
}

StateDict EarlyStopper::state_dict() const {
  if (!best_) return {};
  return {{},
          {{"monitor", params_.monitor},
           {"stopped", stopped_},
           {"best", best_->value},
           {"epoch", best_->time.epoch},
           {"batch", best_->time.batch},
           {"sample", best_->time.sample}}};
}

void EarlyStopper::load_state_dict(const StateDict& state) {
  const auto* value = state.find<double>("best");
  const auto* monitor = state.find<std::string>("monitor");
  if (value == nullptr || monitor == nullptr || *monitor != params_.monitor) return;
  if (const auto* stopped = state.find<bool>("stopped")) stopped_ = *stopped;
  best_ = {*value, {}};
  const auto take = [&](const char* name, int64_t& count) {
    if (const auto* kept = state.find<int64_t>(name)) count = *kept;
  };
  take("epoch", best_->time.epoch);
  take("batch", best_->time.batch);
  take("sample", best_->time.sample);
}

}  // namespace composer
