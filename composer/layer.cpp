#include "composer/layer.h"

#include <stdexcept>

namespace composer {

void Slot::set(std::shared_ptr<Layer> layer) {
  if (layer_ == nullptr)
    owner_.register_module(name_, layer);
  else
    owner_.replace_module(name_, layer);
  layer_ = std::move(layer);
}

Slot& Block::add(std::string name, std::shared_ptr<Layer> layer) {
  auto& slot = slots_.emplace_back(*this, std::move(name));
  slot.set(std::move(layer));
  return slot;
}

Sequential::Sequential(std::vector<std::shared_ptr<Layer>> layers) {
  for (auto& layer : layers) add(std::to_string(slots().size()), std::move(layer));
}

at::Tensor Sequential::forward(const at::Tensor& input) {
  at::Tensor x = input;
  for (auto& slot : slots()) x = slot(x);
  return x;
}

at::Tensor ResidualBlock::forward(const at::Tensor& input) {
  return residual(input).add_(shortcut(input)).relu_();
}

}  // namespace composer
