#include "algorithms/gradual_unfreezing.h"

#include "algorithms/parts/schedule.h"
#include "base/error.h"
#include "base/log.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/optimization/parameter_groups.h"

namespace composer {

std::vector<std::vector<at::Tensor>> trained_layers(Model& model) {
  const auto parameters = model.named_parameters();
  std::vector<std::vector<at::Tensor>> layers;
  for (const auto& names : parameters_by_depth(model)) {
    std::vector<at::Tensor> layer;
    for (const auto& name : names)
      if (parameters[name].requires_grad()) layer.push_back(parameters[name]);
    if (!layer.empty()) layers.push_back(std::move(layer));
  }
  return layers;
}

void unfreeze_last(Model& model, const std::vector<std::vector<at::Tensor>>& layers,
                   int64_t count) {
  // A parameter of several layers is trained with the last of them.
  for (int64_t i = 0; i < std::ssize(layers); ++i)
    for (const auto& parameter : layers[static_cast<size_t>(i)])
      parameter.set_requires_grad(i >= std::ssize(layers) - count);
  std::vector<std::string> frozen;
  for (const auto& item : model.named_parameters())
    if (!item.value().requires_grad()) frozen.push_back(item.key());
  model.freeze(frozen);
}

std::string GradualUnfreezing::Params::check() const {
  auto problems = check_start("start", start) + check_start("until", until);
  if (problems.empty() && start.unit == until.unit && until.value < start.value)
    problems = "until: must not be before start (" + start.str() + ")\n";
  return problems;
}

Compatibility GradualUnfreezing::compatibility() {
  return {.excludes = {{"layer_freezing", "both decide which layers are trained"},
                       {"no_op_model", "the one number has no layers to thaw"},
                       {"whitening", "it decides itself when its layer is trained"}},
          .needs = {}};
}

int64_t GradualUnfreezing::trained(double elapsed, int64_t layers, double start, double until) {
  if (elapsed < start) return 1;
  if (elapsed >= until) return layers;
  const double steps = (elapsed - start) / (until - start) * static_cast<double>(layers - 2);
  return std::clamp<int64_t>(2 + static_cast<int64_t>(steps), 1, layers);
}

int64_t GradualUnfreezing::trained(const State& state) const {
  const auto share = [&](const Time& time) { return share_of_run(state.run_length, time); };
  return trained(state.elapsed(), std::ssize(layers(state)), share(params_.start),
                 share(params_.until));
}

const GradualUnfreezing::Layers& GradualUnfreezing::layers(const State& state) const {
  if (layers_.empty()) layers_ = trained_layers(*state.model);
  return layers_;
}

void GradualUnfreezing::fit_start(State& state) {
  for (const auto& [key, time] : {std::pair{"start", params_.start}, {"until", params_.until}})
    if (time.unit != TimeUnit::duration && !state.run_length.total_batches())
      throw UserError(std::string("algorithms.gradual_unfreezing.") + key +
                      ": must be in dur, not " + time.str() + ", where max_duration is in seconds");
  const auto share = [&](const Time& time) { return share_of_run(state.run_length, time); };
  if (share(params_.until) < share(params_.start))
    throw UserError("algorithms.gradual_unfreezing.until: " + params_.until.str() +
                    " is before start, " + params_.start.str());
  warn_if_longer(state, "algorithms.gradual_unfreezing.until", params_.until);
  if (layers(state).size() < 2)
    log::warn("gradual_unfreezing: has no effect: the network has one layer that is trained");
  if (layers(state).empty()) return;
  trained_ = trained(state);
  unfreeze_last(*state.model, layers(state), trained_);
}

void GradualUnfreezing::batch_start(State& state) {
  if (layers_.empty()) return;
  const int64_t count = trained(state);
  if (count != trained_) unfreeze_last(*state.model, layers_, count);
  trained_ = count;
  state.logger->log("gradual_unfreezing/layers_trained", static_cast<double>(count));
}

std::vector<std::pair<std::string, double>> GradualUnfreezing::planned(const State& state) const {
  if (layers(state).empty()) return {};
  return {{"gradual_unfreezing/layers_trained", static_cast<double>(trained(state))}};
}

}  // namespace composer
