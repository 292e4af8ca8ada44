#include "composer/callbacks/run_times.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/process/interrupt.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"

namespace composer {
namespace {

constexpr double longest_silence = 60;  ///< seconds

/// Without what happened inside each range.
std::map<std::string, double> self_seconds(const Timer& timer) {
  std::map<std::string, double> seconds;
  for (const auto& [name, total] : timer.totals().here) seconds[name] = total.self_seconds;
  return seconds;
}

bool is_event(const std::string& range) {
  return std::ranges::find(event_names, range) != std::end(event_names);
}

}  // namespace

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
  if (!state.eval_metrics.empty()) log_all(logger);  // else a signal ended it
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
  return is_event(range) ? "other" : range;
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
