#include "nn/network/layer.h"

#include "nn/network/operations.h"
#include "nn/network/recompute.h"
#include "nn/network/recorder.h"

namespace composer {

at::Tensor Slot::run(const at::Tensor& input) const {
  return recomputes_ ? recomputed(*layer_, input) : layer_->forward(input);
}

template <class Compute>
at::Tensor Slot::computed(const at::Tensor& input, const Compute& compute) const {
  const Recorder::Inside inside(name_);
  try {
    if (weights_ == nullptr) return compute();
    weights_->fetch();
    return weights_->release(input, compute());
  } catch (const LayerError& error) {
    throw error.inside(name_);
  }
}

at::Tensor Slot::operator()(const at::Tensor& input) const {
  return computed(input, [&] { return run(input); });
}

at::Tensor Slot::operator()(const at::Tensor& input, const at::Tensor& residual,
                            Activation activation) const {
  return computed(input, [&] {
    return norm_ != nullptr ? norm_->forward(input, residual, activation)
                            : followed(run(input), residual, activation);
  });
}

bool Slot::joins() const { return norm_ != nullptr && weights_ == nullptr && !recomputes_; }

at::Tensor Slot::operator()(const at::Tensor& input, const Slot& shortcut, const at::Tensor& from,
                            Activation activation) const {
  const auto* const layers = dynamic_cast<const Sequential*>(shortcut.layer_.get());
  const Slot* const ending =
      layers == nullptr || layers->slots_.empty() ? nullptr : &layers->slots_.back();
  if (!joins() || ending == nullptr || !ending->joins() || ending->next_ != Activation::none ||
      shortcut.weights_ != nullptr || shortcut.recomputes_ || typeid(*layers) != typeid(Sequential))
    return (*this)(input, shortcut(from), activation);
  const auto residual = shortcut.computed(from, [&] { return layers->through_slots(from, 1); });
  const auto both = computed(
      input, [&] { return norm_->forward_with_norm(input, residual, *ending->norm_, activation); });
  if (both.defined()) return both;
  return (*this)(input, shortcut.computed(from, [&] { return (*ending)(residual); }), activation);
}

at::Tensor Slot::pooled(const at::Tensor& input, const Slot& next) const {
  const auto* const pool = next.layer_->max_pool();
  if (!joins() || pool == nullptr || next.weights_ != nullptr || next.recomputes_ ||
      next.next_ != Activation::none)
    return {};
  return computed(input, [&] { return norm_->forward_pooled(input, next_, *pool); });
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

at::Tensor Block::through_slots(const at::Tensor& input, size_t without) const {
  at::Tensor x = input;
  const auto end = slots_.end() - static_cast<ptrdiff_t>(without);
  for (auto slot = slots_.begin(); slot != end; ++slot) {
    const auto next = std::next(slot);
    const auto pooled = next == end ? at::Tensor() : slot->pooled(x, *next);
    x = pooled.defined() ? pooled : (*slot)(x, {}, slot->next());
    if (pooled.defined()) slot = next;
  }
  return x;
}

at::Tensor ResidualBlock::forward(const at::Tensor& input) {
  const auto inner = branch(input);
  const auto skipped = shortcut(input);
  return last()(inner, skipped, activation());
}

at::Tensor followed_in_place(at::Tensor output, const at::Tensor& residual, Activation activation) {
  if (residual.defined()) op::add_(output, residual);
  switch (activation) {
    case Activation::none:
      return output;
    case Activation::relu:
      return op::relu_(output);
    case Activation::gelu:
      return op::gelu(output);
  }
  return output;
}

at::Tensor followed(const at::Tensor& output, const at::Tensor& residual, Activation activation) {
  if (residual.defined()) return followed_in_place(op::add(output, residual), {}, activation);
  return activation == Activation::relu ? op::relu(output)
                                        : followed_in_place(output, {}, activation);
}

at::Tensor NormLayer::forward(const at::Tensor& input, const at::Tensor& residual,
                              Activation activation) {
  return followed_in_place(normalize(input), residual, activation);
}

at::Tensor NormLayer::forward_with_norm(const at::Tensor&, const at::Tensor&, NormLayer&,
                                        Activation) {
  return {};
}

at::Tensor NormLayer::forward_pooled(const at::Tensor&, Activation, const Pool2dOptions&) {
  return {};
}

}  // namespace composer
