#include "nn/network/layer.h"

#include <stdexcept>
#include <typeinfo>

#include "nn/network/layer_error.h"
#include "nn/network/norm_layer.h"
#include "nn/network/recompute.h"
#include "nn/network/recorder.h"

namespace composer {

at::Tensor Slot::run(const at::Tensor& input) const {
  return recomputes_ ? recomputed(*layer_, input) : layer_->forward(input);
}

template <class Compute>
at::Tensor Slot::with_weights(const at::Tensor& input, const Compute& compute) const {
  if (weights_ == nullptr) return compute();
  weights_->fetch();
  return weights_->release(input, compute());
}

at::Tensor Slot::operator()(const at::Tensor& input) const {
  const Recorder::Inside inside(name_);
  try {
    return with_weights(input, [&] { return run(input); });
  } catch (const LayerError& error) {
    throw error.inside(name_);
  }
}

at::Tensor Slot::operator()(const at::Tensor& input, const at::Tensor& residual,
                            Activation activation) const {
  const Recorder::Inside inside(name_);
  try {
    return with_weights(input, [&] {
      return norm_ != nullptr ? norm_->forward(input, residual, activation)
                              : followed(run(input), residual, activation);
    });
  } catch (const LayerError& error) {
    throw error.inside(name_);
  }
}

void Slot::set(std::shared_ptr<Layer> layer) {
  if (layer_ == nullptr)
    owner_.register_module(name_, layer);
  else
    owner_.replace_module(name_, layer);
  layer_ = std::move(layer);
  norm_ = dynamic_cast<NormLayer*>(layer_.get());
}

Slot& Block::add(std::string name, std::shared_ptr<Layer> layer) {
  auto& slot = slots_.emplace_back(*this, std::move(name));
  slot.set(std::move(layer));
  return slot;
}

Sequential::Sequential(std::vector<std::shared_ptr<Layer>> layers) {
  for (auto& layer : layers) add(std::to_string(slots().size()), std::move(layer));
}

Sequential::Sequential(std::vector<Named> layers) {
  for (auto& [name, layer] : layers) add(name, std::move(layer));
}

bool Sequential::by_rows() const { return typeid(*this) == typeid(Sequential); }

at::Tensor Block::through_slots(const at::Tensor& input) const {
  at::Tensor x = input;
  for (const auto& slot : slots_) x = slot(x, {}, slot.next());
  return x;
}

at::Tensor Sequential::forward(const at::Tensor& input) { return through_slots(input); }

at::Tensor ResidualBlock::forward(const at::Tensor& input) {
  const auto inner = branch(input);
  const auto skipped = shortcut(input);
  return last()(inner, skipped, activation());
}

}  // namespace composer
