#include "algorithms/dropout.h"

#include <ATen/Parallel.h>

#include <unordered_set>

#include "algorithms/parts/replaced_layers.h"
#include "base/number_text.h"
#include "base/random.h"
#include "nn/device/device.h"
#include "nn/network/operations.h"

namespace composer {
namespace {

/// bool of shape [samples, ...]: false where a feature is dropped.
at::Tensor kept_features(at::IntArrayRef shape, double rate, const std::string& layer,
                         const State& state) {
  const auto kept = at::empty(shape, at::kBool);
  const int64_t features = shape[0] == 0 ? 0 : kept.numel() / shape[0];
  auto* const values = kept.data_ptr<bool>();
  constexpr int64_t samples_a_thread = 16;
  at::parallel_for(0, shape[0], samples_a_thread, [&](int64_t begin, int64_t end) {
    for (int64_t sample = begin; sample < end; ++sample) {
      Random random(state.seed, "dropout." + layer, static_cast<uint64_t>(state.time.batch),
                    static_cast<uint64_t>(state.first_sample + sample));
      for (int64_t feature = 0; feature < features; ++feature)
        values[sample * features + feature] = random.uniform() >= rate;
    }
  });
  return kept;
}

/// Every linear layer that takes features, in the order of the forward pass.
std::vector<const Layer*> linear_layers(Block& model) {
  std::vector<const Layer*> linears;
  std::unordered_set<const Layer*> second_halves;
  for (const auto& [path, layer, next, slot] : placed_layers(model)) {
    if (const auto* halves = dynamic_cast<Factorized*>(layer))
      second_halves.insert(halves->second().get());
    else if (dynamic_cast<Linear*>(layer) != nullptr && !second_halves.contains(layer))
      linears.push_back(layer);
  }
  return linears;
}

}  // namespace

at::Tensor dropout(const at::Tensor& features, double rate, const std::string& layer,
                   const State& state) {
  const auto kept = kept_features(features.sizes(), rate, layer, state);
  return op::scale(op::multiply(features, copy_to(features.device(), kept)), 1 / (1 - rate));
}

DropoutLinear::DropoutLinear(std::shared_ptr<Linear> original, double rate, std::string path,
                             std::weak_ptr<const State> state)
    : Linear(*original),
      original_(std::move(original)),
      rate_(rate),
      path_(std::move(path)),
      state_(std::move(state)) {}

at::Tensor DropoutLinear::dropped(const at::Tensor& input) const {
  const auto state = state_.lock();
  return state == nullptr ? input : dropout(input, rate_, path_, *state);
}

at::Tensor DropoutLinear::forward(const at::Tensor& input) {
  return original_->forward(is_training() ? dropped(input) : input);
}

at::Tensor DropoutLinear::forward_rounded(const at::Tensor& input, const Rounder& rounder) {
  return Linear::forward(dropped(rounder.input(input)));
}

std::string DropoutLinear::describe() const {
  return "DropoutLinear: dropout " + number_text(rate_, 3) + ", then " + original_->describe();
}

std::vector<Replacement> apply_dropout(Block& model, const Dropout::Params& params,
                                       const std::weak_ptr<const State>& state) {
  auto chosen = linear_layers(model);
  if (params.layers == "head" && !chosen.empty()) chosen = {chosen.back()};
  return replace_some(
      model,
      [&](const std::string& path, Layer& layer) -> std::shared_ptr<Layer> {
        auto original = std::dynamic_pointer_cast<Linear>(layer.shared_from_this());
        if (std::ranges::count(chosen, &layer) == 0 ||
            dynamic_cast<DropoutLinear*>(&layer) != nullptr)
          return nullptr;
        return std::make_shared<DropoutLinear>(std::move(original), params.drop_rate, path, state);
      },
      "algorithms.dropout: the model has no linear layer to drop features in front of, or has "
      "dropout there already, so dropout would change nothing; remove it");
}

void Dropout::init(State& state) {
  state_ = std::shared_ptr<const State>(&state, [](const State*) {});  // owned by the run
  replacements_ = apply_dropout(*state.model, params_, state_);
  log_count(state, "dropout/num_dropout_layers", "dropout: in front of", "linear layers");
}

}  // namespace composer
