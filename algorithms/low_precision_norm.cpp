#include "algorithms/low_precision_norm.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "base/error.h"
#include "base/log.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/network/layers.h"

namespace composer {
namespace {

std::optional<at::ScalarType> autocast_type(const at::Tensor& input) {
  const auto device = input.device().type();
  if (!at::autocast::is_autocast_enabled(device)) return std::nullopt;
  return at::autocast::get_autocast_dtype(device);
}

// Autocast's own rule would make the input float32 again.
using NoAutocast = c10::impl::ExcludeDispatchKeyGuard;

}  // namespace

at::Tensor LowPrecisionLayerNorm::normalize(const at::Tensor& input) {
  const auto type = autocast_type(input);
  if (!type) return LayerNorm::normalize(input);
  const NoAutocast off(c10::autocast_dispatch_keyset);
  return at::layer_norm(input.to(*type), {features_}, weight.to(*type), bias.to(*type), eps_);
}

std::string LowPrecisionLayerNorm::describe() const {
  return "LowPrecisionLayerNorm(" + std::to_string(features_) + ")";
}

at::Tensor LowPrecisionGroupNorm::normalize(const at::Tensor& input) {
  const auto type = autocast_type(input);
  if (!type) return GroupNorm::normalize(input);
  const NoAutocast off(c10::autocast_dispatch_keyset);
  return at::group_norm(input.to(*type), groups_, weight.to(*type), bias.to(*type), eps_);
}

std::string LowPrecisionGroupNorm::describe() const {
  return "LowPrecisionGroupNorm(" + std::to_string(groups_) + ", " + std::to_string(channels_) +
         ")";
}

Compatibility LowPrecisionNorm::compatibility() {
  return {.excludes = {},
          .needs = {{"precision",
                     {"amp", "amp_fp16", "amp_bf16", "bf16"},
                     "in fp32 there is no lower precision to normalise in"}}};
}

std::vector<Replacement> apply_low_precision_norm(Block& model) {
  bool batch_norm = false;
  auto replacements =
      replace_layers(model, [&](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
        if (dynamic_cast<BatchNorm2d*>(&layer) != nullptr) batch_norm = true;
        // It normalises another dimension than LowPrecisionLayerNorm.
        if (dynamic_cast<LayerNorm2d*>(&layer) != nullptr) return nullptr;
        if (dynamic_cast<LowPrecisionLayerNorm*>(&layer) != nullptr ||
            dynamic_cast<LowPrecisionGroupNorm*>(&layer) != nullptr)
          return nullptr;
        if (const auto* norm = dynamic_cast<LayerNorm*>(&layer))
          return std::make_shared<LowPrecisionLayerNorm>(*norm);
        if (const auto* norm = dynamic_cast<GroupNorm*>(&layer))
          return std::make_shared<LowPrecisionGroupNorm>(*norm);
        return nullptr;
      });
  if (replacements.empty() && !batch_norm)
    throw UserError(
        "algorithms.low_precision_norm: the model has no normalisation layer, so it would change "
        "nothing; remove it, or take a model with group norm (model.resnet.norm: group_norm)");
  return replacements;
}

void LowPrecisionNorm::init(State& state) {
  replacements_ = apply_low_precision_norm(*state.model);
  const auto* metric = "low_precision_norm/num_new_layers";
  if (!replacements_.empty())
    return log_count(state, metric, "low_precision_norm: replaced", "layers");
  log::warn(
      "low_precision_norm changes nothing: the model has batch normalisation only, which takes "
      "16-bit images as they are");
  state.logger->log(metric, 0.0);
}

}  // namespace composer
