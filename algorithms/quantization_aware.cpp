#include "algorithms/quantization_aware.h"

#include "composer/loop/state.h"
#include "nn/network/outline.h"

namespace composer {
namespace {

std::string with_note(const std::string& description) {
  return description + in_training("rounds to 8 bits");
}

}  // namespace

template <class Weighted>
at::Tensor QuantizationAwareLayer<Weighted>::forward(const at::Tensor& input) {
  // Exports keep linear layers of pixels in float32.
  const bool exported = !std::is_same_v<Weighted, Linear> || input.dim() == 2;
  if (!rounding_->on || !this->is_training() || !exported) return original_->forward(input);
  const Exchanged rounded(original_->weight, rounded_weight(original_->weight));
  const Rounder rounder{rounding_->bits};
  if (auto* const within = dynamic_cast<RoundsWithin*>(original_.get()))
    return within->forward_rounded(input, rounder);
  return original_->forward(rounder.input(input));
}

template <class Weighted>
std::string QuantizationAwareLayer<Weighted>::describe() const {
  return with_note(original_->describe());
}

template <class Weighted>
void QuantizationAwareLayer<Weighted>::train(bool on) {
  Weighted::train(on);
  original_->train(on);
}

template class QuantizationAwareLayer<Conv2d>;
template class QuantizationAwareLayer<Linear>;

at::Tensor QuantizationAwareGates::forward(const at::Tensor& input) {
  const Rounder rounder{rounding_->on && is_training() ? rounding_->bits : 0};
  return squeeze_excite(conv()->forward(input), squeeze, excite, rounder);
}

at::Tensor QuantizationAwarePool::forward(const at::Tensor& input) {
  if (!rounding_->on || !is_training()) return original_->forward(input);
  return dynamic_cast<RoundsWithin&>(*original_).forward_rounded(input, {rounding_->bits});
}

std::string QuantizationAwarePool::describe() const { return with_note(original_->describe()); }

std::vector<Replacement> apply_quantization_aware(Block& model,
                                                  const std::shared_ptr<const Rounding>& rounding) {
  const auto choose = [&](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
    const auto self = layer.shared_from_this();
    if (const auto linear = std::dynamic_pointer_cast<Linear>(self))
      return std::make_shared<QuantizationAwareLinear>(linear, rounding);
    if (const auto conv = conv_of(layer)) {
      auto aware = std::make_shared<QuantizationAwareConv2d>(conv, rounding);
      if (const auto* gated = dynamic_cast<SqueezeExciteConv*>(&layer))
        return std::make_shared<QuantizationAwareGates>(std::move(aware), *gated, rounding);
      return aware;
    }
    if (dynamic_cast<RoundsWithin*>(&layer) != nullptr)
      return std::make_shared<QuantizationAwarePool>(std::dynamic_pointer_cast<Layer>(self),
                                                     rounding);
    return nullptr;
  };
  return replace_some(
      model, choose,
      "algorithms.quantization_aware: the model has no convolution and no linear layer, so it "
      "would change nothing; remove it");
}

Compatibility QuantizationAware::compatibility() {
  return {.excludes = {{"no_op_model", "its one number has no layers to round"},
                       {"weight_standardization",
                        "it computes with other weights than those that would be rounded"}}};
}

std::string QuantizationAware::prevents_graph_capture() const {
  return params_.start.value == 0 ? ""
                                  : "the layers compute with rounded numbers from "
                                    "algorithms.quantization_aware.start on";
}

void QuantizationAware::init(State& state) {
  rounding_->bits = params_.activation_bits;
  replacements_ = apply_quantization_aware(*state.model, rounding_);
  log_count(state, "quantization_aware/num_quantization_aware_layers",
            "quantization_aware: rounds in", "layers");
}

void QuantizationAware::fit_start(State& state) {
  warn_if_never(state, "algorithms.quantization_aware.start", params_.start);
}

void QuantizationAware::batch_start(State& state) { rounding_->on = reached(state, params_.start); }

}  // namespace composer
