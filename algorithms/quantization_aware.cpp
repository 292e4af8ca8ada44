#include "algorithms/quantization_aware.h"

#include <limits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "algorithms/parts/replaced_layers.h"
#include "composer/error.h"
#include "composer/state.h"

namespace composer {
namespace {

constexpr float kLeastStep = std::numeric_limits<float>::epsilon();

/// `values` with the gradient of `of`.
at::Tensor straight_through(const at::Tensor& values, const at::Tensor& of) {
  return of + (values - of).detach();
}

/// Computes with a layer whose weight is rounded.
template <class L>
at::Tensor forward_rounded(L& layer, const at::Tensor& weight, const at::Tensor& input,
                           int64_t bits) {
  const auto before = std::exchange(layer.weight, rounded_weight(weight));
  struct Back {
    at::Tensor &place, value;
    ~Back() { place = value; }
  } const back{layer.weight, before};
  return layer.forward(rounded_activations(input, bits));
}

}  // namespace

at::Tensor rounded_activations(const at::Tensor& values, int64_t bits) {
  if (values.numel() == 0) return values;
  const auto most = static_cast<float>((int64_t{1} << bits) - 1);
  const auto [smallest, largest] = at::aminmax(values.detach().to(at::kFloat));
  const auto low = smallest.clamp_max(0), high = largest.clamp_min(0);
  const auto scale = ((high - low) / most).clamp_min(kLeastStep);
  const auto zero_point = (-(low / scale).round()).clamp(0, most);
  const auto numbers = values.detach().to(at::kFloat);
  const auto codes = ((numbers / scale).round() + zero_point).clamp(0, most);
  return straight_through(((codes - zero_point) * scale).to(values.scalar_type()), values);
}

at::Tensor rounded_weight(const at::Tensor& weight) {
  const auto numbers = weight.detach().to(at::kFloat);
  std::vector<int64_t> rows(static_cast<size_t>(weight.dim()), 1);
  rows[0] = -1;
  const auto scale = (numbers.flatten(1).abs().amax(1) / 127.5F).clamp_min(kLeastStep).view(rows);
  const auto codes = (numbers * scale.reciprocal()).round().clamp(-128, 127);
  return straight_through((codes * scale).to(weight.scalar_type()), weight);
}

at::Tensor QuantizationAwareConv2d::forward(const at::Tensor& input) {
  return rounding_->on && is_training()
             ? forward_rounded(*original_, weight, input, rounding_->bits)
             : original_->forward(input);
}

std::string QuantizationAwareConv2d::describe() const {
  return "QuantizationAwareConv2d: " + original_->describe();
}

at::Tensor QuantizationAwareLinear::forward(const at::Tensor& input) {
  return rounding_->on && is_training()
             ? forward_rounded(*original_, weight, input, rounding_->bits)
             : original_->forward(input);
}

std::string QuantizationAwareLinear::describe() const {
  return "QuantizationAwareLinear: " + original_->describe();
}

std::vector<Replacement> apply_quantization_aware(Block& model,
                                                  const std::shared_ptr<const Rounding>& rounding) {
  const auto choose = [&](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
    const auto self = layer.shared_from_this();
    if (const auto linear = std::dynamic_pointer_cast<Linear>(self)) {
      if (typeid(layer) != typeid(Linear)) return nullptr;
      return std::make_shared<QuantizationAwareLinear>(linear, rounding);
    }
    const auto conv = conv_of(layer);
    if (conv == nullptr) return nullptr;
    auto aware = std::make_shared<QuantizationAwareConv2d>(conv, rounding);
    if (const auto* gated = dynamic_cast<SqueezeExciteConv*>(&layer))
      return std::make_shared<SqueezeExciteConv>(std::move(aware), *gated);
    return aware;
  };
  auto replacements = replace_layers(model, choose);
  if (replacements.empty())
    throw UserError(
        "algorithms.quantization_aware: the model has no convolution and no linear layer, so it "
        "would change nothing; remove it");
  return replacements;
}

Compatibility QuantizationAware::compatibility() {
  return {.excludes = {{"no_op_model", "its one number has no layers to round"},
                       {"weight_standardization",
                        "it computes with other weights than those that would be rounded"}}};
}

std::string QuantizationAware::against_replay() const {
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
