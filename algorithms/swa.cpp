#include "algorithms/swa.h"

#include <ATen/core/grad_mode.h>

#include "algorithms/parts/start_time.h"
#include "base/error.h"
#include "base/log.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/state_dict.h"

namespace composer {

void add_to_average(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                    int64_t count) {
  const at::NoGradGuard no_grad;
  if (!averages.empty()) at::_foreach_lerp_(averages, values, 1 / static_cast<double>(count + 1));
}

std::string Swa::Params::check() const {
  std::string problems;
  if (swa_start.unit == TimeUnit::sample || swa_start.unit == TimeUnit::second)
    problems += "swa_start: must be in dur, ep or ba\n";
  if (swa_end.unit != swa_start.unit)
    problems += "swa_end: must be in the unit of swa_start\n";
  else if (swa_end.value <= swa_start.value)
    problems += "swa_end: must be after swa_start\n";
  if (swa_end.unit == TimeUnit::duration && swa_end.value > 1)
    problems += "swa_end: must be at most 1dur\n";
  problems += check_ep_or_ba("update_interval", update_interval);
  if (schedule_swa_lr)
    problems +=
        "schedule_swa_lr: must be false: give the learning rate after swa_start by a scheduler\n";
  return problems;
}

void Swa::fit_start(State& state) {
  if (finished_) return;
  const auto& end = params_.swa_end;
  const double last = share_of_run(state.run_length, end);
  if (last > 1)
    log::warn("algorithms.swa.swa_end: " + end.str() +
              " is after the end of the run: the average will not be used");
  else if (last == 1)
    log::warn("algorithms.swa.swa_end: " + end.str() +
              " is the end of the run: no training is left in which batch-norm statistics could "
              "be refreshed for the average; use 0.97dur or so");
}

// An epoch's last batch leaves it to epoch_end to finish, which may have weights to take in first.
void Swa::batch_end(State& state) {
  if (params_.update_interval.unit == TimeUnit::batch) update(state);
  if (state.time.batch_in_epoch < state.run_length.batches_per_epoch) finish_if_due(state);
}

void Swa::epoch_end(State& state) {
  if (params_.update_interval.unit == TimeUnit::epoch) update(state);
  finish_if_due(state);
}

void Swa::update(State& state) {
  if (finished_ || !reached(state, params_.swa_start)) return;
  if (events_++ % static_cast<int64_t>(params_.update_interval.value) != 0) return;
  if (average_.ready(*state.model, state.sharded_parameters.get()))
    add_to_average(average_.copies(), average_.weights(), count_);
  else
    average_.start(*state.model, state.sharded_parameters.get());
  ++count_;
  state.logger->log("swa/count", static_cast<double>(count_));
}

void Swa::finish_if_due(State& state) {
  if (finished_ || !reached(state, params_.swa_end)) return;
  finished_ = true;
  if (!average_.ready(*state.model, state.sharded_parameters.get())) {
    log::warn("algorithms.swa: no " +
              std::string(params_.update_interval.unit == TimeUnit::epoch ? "epoch" : "batch") +
              " ended between swa_start and swa_end: nothing was averaged");
    return;
  }
  const at::NoGradGuard no_grad;
  auto weights = average_.weights();
  if (!weights.empty()) at::_foreach_copy_(weights, average_.copies());
  average_.drop();
  log::info("swa: the parameters are now their average (of " + std::to_string(count_) + ")");
}

StateDict Swa::state_dict() const {
  if (events_ == 0 && !finished_) return {};
  StateDict state;
  average_.save(state);
  state.values = {{"events", events_}, {"count", count_}, {"finished", finished_}};
  return state;
}

void Swa::load_state_dict(const StateDict& state) {
  const auto number = [&](const char* name) {
    const auto* value = state.find<int64_t>(name);
    if (value == nullptr)
      throw UserError(std::string("algorithms.swa: the checkpoint has no number '") + name + "'");
    return *value;
  };
  average_.load(state);
  events_ = number("events"), count_ = number("count");
  const auto* finished = state.find<bool>("finished");
  finished_ = finished != nullptr && *finished;
}

}  // namespace composer
