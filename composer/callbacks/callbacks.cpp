#include "composer/callbacks/callbacks.h"

#include <c10/util/StringUtil.h>

#include "base/error.h"
#include "base/log.h"
#include "base/number_text.h"
#include "base/process/interrupt.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/network/metric_sense.h"
#include "nn/network/metrics.h"
#include "nn/optimization/optimizer.h"
#include "nn/state_dict.h"

namespace composer {
namespace {

constexpr double longest_silence = 60;  ///< seconds

/// Seconds in each range without the ranges inside it.
std::map<std::string, double> self_seconds(const Timer& timer) {
  std::map<std::string, double> seconds;
  for (const auto& [name, total] : timer.totals().here) seconds[name] = total.self_seconds;
  return seconds;
}

}  // namespace

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

/// A resumed run starts from a checkpoint, so that the interval begins at its start.
void CheckpointSaver::fit_start(const State& state, Logger&, RunControl&) {
  times_.done_at(state.time.seconds);
}

void CheckpointSaver::batch_checkpoint(const State& state, Logger&, RunControl& control) {
  save_if_due(state, control, false);
}

void CheckpointSaver::epoch_checkpoint(const State& state, Logger&, RunControl& control) {
  save_if_due(state, control, true);
}

/// All ranks use the first rank's clock, so that they agree.
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
  if (found == state.eval_metrics.end()) return;  // another set, or a signal ended it
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

std::string ThresholdStopper::Params::check() const {
  auto problems = check_monitor(monitor);
  if (is_share(monitor) && (threshold < 0 || threshold > 1))
    problems += "threshold: must be in [0, 1], as " + monitor + " is a share, not " +
                c10::str(threshold) +
                (threshold > 1 && threshold <= 100
                     ? " (" + c10::str(threshold) + " % is " + c10::str(threshold / 100) + ")"
                     : "") +
                "\n";
  return problems;
}

void ThresholdStopper::init(const State& state, Logger&, RunControl&) {
  check_is_evaluated("callbacks.threshold_stopper.monitor", params_.monitor,
                     state.model->metric_names(), state.evaluation_sets);
}

void ThresholdStopper::fit_start(const State&, Logger&, RunControl& control) {
  stop_if_reached(control);
}

void ThresholdStopper::eval_end(const State& state, Logger&, RunControl& control) {
  const auto found = state.eval_metrics.find(params_.monitor);
  if (found == state.eval_metrics.end()) return;  // another set, or a signal ended it
  last_ = found->second;
  stop_if_reached(control);
}

void ThresholdStopper::fit_end(const State&, Logger&, RunControl&) {
  if (!last_)
    log::warn("callbacks.threshold_stopper: had no effect: the run has had no evaluation");
  else if (!reached())
    log::info("threshold_stopper: " + params_.monitor + " is " + number_text(*last_, 4) +
              ", the threshold " + number_text(params_.threshold, 4) + " was not reached");
}

bool ThresholdStopper::reached() const {
  if (!last_) return false;
  return smaller_is_better(params_.monitor) ? *last_ <= params_.threshold
                                            : *last_ >= params_.threshold;
}

void ThresholdStopper::stop_if_reached(RunControl& control) const {
  if (reached())
    control.request_stop("threshold_stopper: " + params_.monitor + " is " + number_text(*last_, 4) +
                         ", the threshold " + number_text(params_.threshold, 4));
}

StateDict ThresholdStopper::state_dict() const {
  if (!last_) return {};
  return {{}, {{"monitor", params_.monitor}, {"last", *last_}}};
}

void ThresholdStopper::load_state_dict(const StateDict& state) {
  const auto* last = state.find<double>("last");
  const auto* monitor = state.find<std::string>("monitor");
  if (last != nullptr && monitor != nullptr && *monitor == params_.monitor) last_ = *last;
}

void RuntimeEstimator::fit_start(const State& state, Logger&, RunControl&) {
  batches_ = 0;
  begin_elapsed_ = state.elapsed(), begin_seconds_ = state.time.seconds;
}

void RuntimeEstimator::batch_end(const State& state, Logger& logger, RunControl&) {
  const double elapsed = state.elapsed();
  if (++batches_ <= params_.skip_batches) {
    begin_elapsed_ = elapsed, begin_seconds_ = state.time.seconds;
    return;
  }
  const double done = elapsed - begin_elapsed_;
  if (done <= 0) return;
  logger.log("wall_clock/remaining_estimate",
             (state.time.seconds - begin_seconds_) / done * (1 - elapsed));
}

void RunTimes::fit_start(const State&, Logger&, RunControl&) {
  timer_.emplace(Timer::Listen::here);
  logged_.clear(), in_evaluation_.clear();
  in_batch_ = in_an_evaluation_ = unlogged_ = false;
  evaluation_ = 0, record_ = -1;
  begin_ = logged_at_ = steady_seconds();
}

void RunTimes::batch_start(const State&, Logger&, RunControl&) { in_batch_ = true; }

void RunTimes::batch_end(const State& state, Logger& logger, RunControl&) {
  in_batch_ = false, unlogged_ = true;
  if (steady_seconds() - logged_at_ > longest_silence || state.run_length.finished(state.time) ||
      received_signal() != 0)
    log_all(logger);
}

void RunTimes::epoch_end(const State&, Logger& logger, RunControl&) { log_all(logger); }

void RunTimes::eval_start(const State&, Logger&, RunControl&) {
  if (!timer_) return;
  before_evaluation_ = self_seconds(*timer_);
  evaluation_begin_ = steady_seconds();
  in_an_evaluation_ = true;
}

void RunTimes::eval_end(const State& state, Logger& logger, RunControl&) {
  if (!timer_) return;
  leave_evaluation();
  if (!state.eval_metrics.empty()) log_all(logger);  // empty if a signal ended it
}

void RunTimes::leave_evaluation() {
  if (!std::exchange(in_an_evaluation_, false)) return;
  evaluation_ += steady_seconds() - evaluation_begin_;
  for (const auto& [name, seconds] : self_seconds(*timer_))
    in_evaluation_[name] += seconds - before_evaluation_[name];
}

void RunTimes::run_end(const State& state, const RunEnd&) {
  if (!timer_) return;
  leave_evaluation();
  if (unlogged_ && !in_batch_) {
    log_all(*state.logger);
    state.logger->commit("batch", state.time);
    for (int copied_then_given = 0; copied_then_given < 2; ++copied_then_given)
      state.logger->write();
  }
  timer_.reset();
}

std::string RunTimes::part_of(const std::string& range) const {
  if (algorithms_.contains(range)) return "algorithms/" + range;
  if (callbacks_.contains(range)) return "callbacks/" + range;
  const bool event = std::ranges::find(event_names, range) != std::end(event_names);
  return event ? "other" : range;
}

RunTimes::Seconds RunTimes::parts() const {
  Seconds all;
  double known = 0;
  for (const auto& [name, seconds] : self_seconds(*timer_)) {
    if (name == "evaluation") continue;
    const auto inside = in_evaluation_.find(name);
    all[part_of(name)] += seconds - (inside == in_evaluation_.end() ? 0 : inside->second);
  }
  all["evaluation"] = evaluation_;
  for (const auto& [name, seconds] : all)
    if (name != "other") known += seconds;
  all["other"] = steady_seconds() - begin_ - known;
  return all;
}

void RunTimes::log_all(Logger& logger) {
  if (!timer_) return;
  const auto now = parts();
  if (std::exchange(record_, logger.commits()) != logger.commits()) counted_from_ = logged_;
  for (const auto& [name, seconds] : now)
    if (const double since = seconds - counted_from_[name]; since > 0)
      logger.log("time/" + name, since);
  logged_ = now;
  logged_at_ = steady_seconds();
  unlogged_ = false;
}

}  // namespace composer
