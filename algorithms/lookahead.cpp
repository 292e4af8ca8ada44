#include "algorithms/lookahead.h"

#include <ATen/core/grad_mode.h>

#include "algorithms/parts/schedule.h"
#include "composer/loop/state.h"

namespace composer {

void look_back(const std::vector<at::Tensor>& slow, const std::vector<at::Tensor>& fast,
               double share) {
  const at::NoGradGuard no_grad;
  move_averages(slow, fast, share);
  if (!fast.empty()) at::_foreach_copy_(fast, slow);
}

std::string Lookahead::Params::check() const {
  return check_ep_or_ba("interval", interval) + check_start("start", start);
}

Lookahead::Lookahead(const Params& params)
    : params_(params),
      buffers_(params.buffers.value_or(params.schedule == "cubic")),
      slow_("slow.", buffers_) {}

Compatibility Lookahead::compatibility() {
  return {.excludes = {
              {"swa", "the slow weights would draw the network away from the average it becomes"}}};
}

double Lookahead::kept(const State& state) const {
  if (params_.schedule == "constant") return 1 - params_.alpha;
  return std::pow(params_.decay, state.run_length.batches(params_.interval)) *
         std::pow(state.elapsed(), 3);
}

void Lookahead::fit_start(State& state) {
  warn_if_never(state, "algorithms.lookahead.start", params_.start);
  warn_if_longer(state, "algorithms.lookahead.interval", params_.interval);
}

void Lookahead::batch_start(State& state) {
  if (!slow_.ready(*state.model, state.sharded_parameters.get()) && reached(state, params_.start))
    start(state);
}

void Lookahead::start(State& state) {
  share_buffers(state);
  slow_.start(*state.model, state.sharded_parameters.get());
}

void Lookahead::share_buffers(State& state) const {
  if (buffers_) state.ranks.broadcast(state.model->buffers());
}

void Lookahead::update(State& state, bool epoch_end) {
  if (!slow_.ready(*state.model, state.sharded_parameters.get())) {
    if (reached(state, params_.start)) start(state);
    return;
  }
  const bool due = state.run_length.due(params_.interval, state.time, epoch_end);
  if (!due && (params_.schedule != "cubic" || !ends(state, epoch_end))) return;
  share_buffers(state);
  look_back(slow_.copies(), slow_.weights(), due ? 1 - kept(state) : 0);
}

// An interval in epochs may end after the last batch.
bool Lookahead::ends(const State& state, bool epoch_end) const {
  const bool in_epoch = state.time.batch_in_epoch < state.run_length.batches_per_epoch;
  const bool by_epochs = params_.interval.unit == TimeUnit::epoch;
  return state.elapsed() >= 1 && (!by_epochs || epoch_end || in_epoch);
}

std::vector<std::pair<std::string, double>> Lookahead::planned(const State& state) const {
  if (!reached(state, params_.start)) return {{"lookahead/kept", 0}};
  return {{"lookahead/kept", kept(state)}};
}

}  // namespace composer
