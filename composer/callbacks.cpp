#include "composer/callbacks.h"

#include "composer/clock.h"
#include "composer/logging/logger.h"
#include "composer/optimization/optimizer.h"
#include "composer/state.h"

namespace composer {

void SpeedMonitor::batch_start(const State& state, Logger&, RunControl&) {
  if (last_ >= 0) return;
  last_ = steady_seconds();
  last_sample_ = state.time.sample;
}

void SpeedMonitor::batch_end(const State& state, Logger& logger, RunControl&) {
  const double end = steady_seconds();
  window_.push_back({end - last_, state.time.sample - last_sample_});
  sum_.seconds += window_.back().seconds, sum_.samples += window_.back().samples;
  training_ += window_.back().seconds;
  last_ = end;
  last_sample_ = state.time.sample;
  if (static_cast<int64_t>(window_.size()) > params_.window_size) {
    sum_.seconds -= window_.front().seconds, sum_.samples -= window_.front().samples;
    window_.pop_front();
  }
  if (sum_.seconds > 0)
    logger.log("throughput/samples_per_sec", static_cast<double>(sum_.samples) / sum_.seconds);
}

void SpeedMonitor::epoch_end(const State&, Logger& logger, RunControl&) {
  logger.log("wall_clock/train", training_);
}

void SpeedMonitor::eval_start(const State&, Logger&, RunControl&) {
  eval_begin_ = steady_seconds();
}

void SpeedMonitor::eval_end(const State&, Logger&, RunControl&) {
  if (last_ >= 0) last_ += steady_seconds() - eval_begin_;
}

void SpeedMonitor::load_state_dict(const StateDict& state) {
  if (const auto* seconds = state.find<double>("training_seconds")) training_ = *seconds;
}

void LrMonitor::after_train_batch(const State& state, Logger& logger, RunControl&) {
  logger.log("lr", state.optimizer->lr());
}

std::string CheckpointSaver::Params::check() const {
  return check_interval("save_interval", save_interval);
}

void CheckpointSaver::batch_checkpoint(const State& state, Logger&, RunControl& control) {
  if (state.schedule.due(params_.save_interval, state.time, false)) control.request_checkpoint();
}

void CheckpointSaver::epoch_checkpoint(const State& state, Logger&, RunControl& control) {
  if (state.schedule.due(params_.save_interval, state.time, true)) control.request_checkpoint();
}

}  // namespace composer
