#include "algorithms/layer_freezing.h"

#include <unordered_set>

#include "composer/logging/logger.h"
#include "composer/loop/state.h"

namespace composer {

std::vector<torch::nn::Module*> layers_with_parameters(torch::nn::Module& model) {
  std::vector<torch::nn::Module*> layers;
  std::unordered_set<const torch::nn::Module*> seen;
  const std::function<void(torch::nn::Module&)> visit = [&](torch::nn::Module& module) {
    if (!module.parameters(/*recurse=*/false).empty() && seen.insert(&module).second)
      layers.push_back(&module);
  };
  model.apply(visit);
  return layers;
}

void freeze_layers(torch::nn::Module& model, int64_t count) {
  const auto layers = layers_with_parameters(model);
  for (size_t i = 0; i < layers.size() && i < static_cast<size_t>(count); ++i)
    for (auto& parameter : layers[i]->parameters(/*recurse=*/false)) {
      parameter.requires_grad_(false);
      parameter.mutable_grad().reset();
    }
}

int64_t LayerFreezing::frozen(double elapsed, int64_t layers, const Params& params) {
  if (elapsed <= params.freeze_start) return 0;
  const double share =
      params.freeze_level * (elapsed - params.freeze_start) / (1 - params.freeze_start);
  return static_cast<int64_t>(share * static_cast<double>(layers - 1));
}

int64_t LayerFreezing::frozen(const State& state) const {
  Timestamp epoch_start = state.time;
  epoch_start.batch -= epoch_start.batch_in_epoch;
  epoch_start.sample -= epoch_start.sample_in_epoch;
  epoch_start.batch_in_epoch = epoch_start.sample_in_epoch = 0;
  return frozen(state.run_length.elapsed(epoch_start),
                std::ssize(layers_with_parameters(*state.model)), params_);
}

void LayerFreezing::fit_start(State& state) { freeze_layers(*state.model, frozen(state)); }

void LayerFreezing::epoch_end(State& state) {
  const int64_t count = frozen(state);
  freeze_layers(*state.model, count);
  const auto layers = static_cast<double>(layers_with_parameters(*state.model).size());
  state.logger->log("layer_freezing/layers_frozen", static_cast<double>(count));
  state.logger->log("layer_freezing/percentage_frozen", 100 * static_cast<double>(count) / layers);
}

std::vector<std::pair<std::string, double>> LayerFreezing::planned(const State& state) const {
  return {{"layer_freezing/layers_frozen", static_cast<double>(frozen(state))}};
}

}  // namespace composer
