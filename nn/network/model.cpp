#include "nn/network/model.h"

#include "base/error.h"
#include "base/name_pattern.h"

namespace composer {

at::Tensor Model::loss(const at::Tensor& logits, const Target& target, Over over) {
  return soft_cross_entropy(logits, target, over);
}

int64_t Model::freeze(const std::vector<std::string>& patterns) {
  const auto parameters = named_parameters();
  const auto names = parameters.keys();
  for (const auto& pattern : patterns)
    if (std::ranges::none_of(names, [&](const auto& name) { return fits(name, pattern); }))
      throw UserError("freeze: '" + pattern + "' fits no parameter of the model" +
                      layer_hint(pattern, names) + "; they are named like " + names.front() +
                      " and " + names.back());
  int64_t frozen = 0;
  for (const auto& item : parameters) {
    if (fits_any(item.key(), patterns)) {
      item.value().set_requires_grad(false);
      item.value().mutable_grad().reset();
    }
    frozen += item.value().requires_grad() ? 0 : 1;
  }
  if (frozen == std::ssize(parameters))
    throw UserError("freeze: every parameter is frozen: nothing is left to train");
  frozen_.clear();
  apply([&](torch::nn::Module& layer) {
    const auto own = layer.parameters(/*recurse=*/false);
    const bool whole = !own.empty() && std::ranges::none_of(own, &at::Tensor::requires_grad);
    if (whole && !layer.buffers(/*recurse=*/false).empty()) frozen_.push_back(&layer);
  });
  train(is_training());
  return frozen;
}

void Model::train(bool on) {
  Block::train(on);
  for (auto* layer : frozen_) layer->eval();
}

}  // namespace composer
