#include "algorithms/ema.h"

#include "algorithms/parts/schedule.h"
#include "composer/loop/state.h"
#include "nn/network/sharded_parameters.h"
#include "nn/optimization/optimizer.h"

namespace composer {

double ema_decay(double half_life, double interval) { return std::exp2(-interval / half_life); }

void compute_ema(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                 double decay) {
  move_averages(averages, values, 1 - decay);
}

std::string Ema::Params::check() const {
  auto problems = check_ep_or_ba("half_life", half_life);
  if (problems.empty() && update_interval && update_interval->unit != half_life.unit)
    problems = "update_interval: must be in the unit of half_life\n";
  if (train_with_ema_weights)
    problems +=
        "train_with_ema_weights: must be false: training goes on from its own weights; lookahead "
        "goes on from an average\n";
  return problems + check_start("ema_start", ema_start);
}

Ema::Ema(const Params& params)
    : params_(params),
      interval_(params.update_interval.value_or(Time{1, params.half_life.unit})),
      decay_(ema_decay(params.half_life.value, interval_.value)) {}

void Ema::fit_start(State& state) {
  warn_if_never(state, "algorithms.ema.ema_start", params_.ema_start);
  warn_if_longer(state, "algorithms.ema.update_interval", interval_);
}

void Ema::after_train_batch(State& state) {
  auto end = state.time;
  ++end.batch;
  // On a GPU a captured step may be replayed without this call.
  handed_over_ = state.device.is_cpu() && state.step_is_final && state.updates == 1 &&
                 state.run_length.due(interval_, end, false) &&
                 shadow_.ready(*state.model, state.sharded_parameters.get());
  if (!handed_over_) return;
  const auto [averages, weights] = pairs_of(shadow_.copies(), shadow_.weights(), /*floating=*/true);
  state.optimizer->average_with_next_step(weights, averages, 1 - decay_);
}

void Ema::update(State& state, bool epoch_end) {
  if (std::exchange(handed_over_, false)) {
    const auto [averages, weights] =
        pairs_of(shadow_.copies(), shadow_.weights(), /*floating=*/false);
    return compute_ema(averages, weights, decay_);
  }
  if (!state.run_length.due(interval_, state.time, epoch_end)) return;
  if (shadow_.ready(*state.model, state.sharded_parameters.get()))
    compute_ema(shadow_.copies(), shadow_.weights(), decay_);
  else if (reached(state, params_.ema_start))
    shadow_.start(*state.model, state.sharded_parameters.get());
}

void Ema::swap_in(State& state) {
  if (swapped_ || !shadow_.ready(*state.model, state.sharded_parameters.get())) return;
  // Each rank averages its own statistics until they are used.
  state.ranks.broadcast(shadow_.copies_of_all());
  swap(state);
}

void Ema::swap_out(State& state) {
  if (swapped_) swap(state);
}

void Ema::swap(State& state) {
  shadow_.swap();
  swapped_ = !swapped_;
  if (state.sharded_parameters) state.sharded_parameters->written();
}

}  // namespace composer
