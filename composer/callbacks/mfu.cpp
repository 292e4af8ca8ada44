#include "composer/callbacks/mfu.h"

#include <cstdio>

#include "base/error.h"
#include "base/log.h"
#include "composer/callbacks/peak_flops.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/network/cost.h"

namespace composer {
namespace {

/// Of an image of the shape of the batch's.
Graph graph_of_image(const State& state) {
  try {
    return record(*state.model, at::zeros_like(state.batch.input.slice(0, 0, 1)));
  } catch (const UserError& error) {
    throw UserError(std::string("callbacks.mfu: ") + error.what());
  }
}

double step_flops(const Graph& graph, const Model& model) {
  return static_cast<double>(cost_of(graph, model).flops_step);
}

std::string rate_text(double flops) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", flops / 1e12);
  return std::string(text) + " TFLOP/s";
}

}  // namespace

void Mfu::fit_start(const State& state, Logger&, RunControl&) {
  const auto peak = params_.peak_flops ? PeakFlops{*params_.peak_flops, "as stated"}
                                       : peak_flops(state.precision, state.device);
  peak_ = peak.per_second * static_cast<double>(state.ranks.size());
  log::info("mfu: 1 is " + rate_text(peak.per_second) + " in " +
            std::string(name(state.precision)) +
            (state.ranks.size() > 1 ? " on each of " + std::to_string(state.ranks.size()) + " ranks"
                                    : "") +
            ", " + peak.source);
}

void Mfu::epoch_start(const State& state, Logger&, RunControl&) {
  for (auto& [shape, known] : known_) known.flops = step_flops(known.graph, *state.model);
}

void Mfu::batch_start(const State& state, Logger&, RunControl&) {
  const auto shape = state.batch.input.sizes().slice(1).vec();
  auto found = known_.find(shape);
  if (found == known_.end()) {
    rate_.suspend();
    auto graph = graph_of_image(state);
    const double flops = step_flops(graph, *state.model);
    found = known_.emplace(shape, Known{std::move(graph), flops}).first;
    rate_.resume();
  }
  flops_ = found->second.flops;
  last_sample_ = state.time.sample;
  rate_.batch_start();
}

void Mfu::batch_end(const State& state, Logger& logger, RunControl&) {
  rate_.batch_end(static_cast<double>(state.time.sample - last_sample_) * flops_);
  if (rate_.per_second() > 0) logger.log("throughput/mfu", rate_.per_second() / peak_);
}

void Mfu::eval_start(const State&, Logger&, RunControl&) { rate_.suspend(); }

void Mfu::eval_end(const State&, Logger&, RunControl&) { rate_.resume(); }

}  // namespace composer
