#include "algorithms/weight_standardization.h"

#include <unordered_set>

#include "algorithms/parts/replaced_layers.h"
#include "base/log.h"
#include "composer/loop/state.h"

namespace composer {
namespace {

/// All convolutions of `model`, in the order of the forward pass.
std::vector<Layer*> convolutions_of(Block& model) {
  std::vector<Layer*> convolutions;
  for (const auto& [path, layer, next, slot] : placed_layers(model))
    if (conv_of(*layer) != nullptr && std::ranges::count(convolutions, layer) == 0)
      convolutions.push_back(layer);
  return convolutions;
}

bool has_filters(const Conv2d& conv) { return conv.weight.numel() > conv.weight.size(0); }

}  // namespace

at::Tensor standardize_weight(const at::Tensor& weight) {
  return op::standardize_weight(weight, {.eps = 1e-10});
}

at::Tensor StandardizedConv2d::forward(const at::Tensor& input) {
  const Exchanged standardized(original_->weight, standardize_weight(weight));
  return original_->forward(input);
}

std::string StandardizedConv2d::describe() const {
  return "StandardizedConv2d: " + original_->describe();
}

std::vector<Replacement> apply_weight_standardization(Block& model, int64_t ignored) {
  const auto convolutions = convolutions_of(model);
  const auto kept = std::max<int64_t>(std::ssize(convolutions) - ignored, 0);
  const std::unordered_set<Layer*> chosen(convolutions.begin(), convolutions.begin() + kept);
  const auto choose = [&](const std::string& path, Layer& layer) -> std::shared_ptr<Layer> {
    const auto conv = conv_of(layer);
    if (!chosen.contains(&layer) || dynamic_cast<StandardizedConv2d*>(conv.get()) != nullptr)
      return nullptr;
    if (!has_filters(*conv)) {
      log::warn("weight_standardization: does not change " + path +
                ", whose filters are single numbers");
      return nullptr;
    }
    auto standardized = std::make_shared<StandardizedConv2d>(conv);
    if (const auto* gated = dynamic_cast<SqueezeExciteConv*>(&layer))
      return std::make_shared<SqueezeExciteConv>(std::move(standardized), *gated);
    return standardized;
  };
  return replace_some(
      model, choose,
      "algorithms.weight_standardization: of the model's " + std::to_string(convolutions.size()) +
          " convolutions none is left to standardise, so it would change nothing; remove "
          "it, or lower algorithms.weight_standardization.n_last_layers_ignore");
}

void WeightStandardization::init(State& state) {
  replacements_ = apply_weight_standardization(*state.model, params_.n_last_layers_ignore);
  log_count(state, "weight_standardization/num_weights_standardized",
            "weight_standardization: standardised", "convolutions");
}

}  // namespace composer
