// Layers that may be swapped. A network holds its layers in slots and calls them through the slots,
// so that surgery (blurpool, ...) can put another layer in place; LibTorch's own replace_module
// swaps only the registry entry.
#pragma once

#include <torch/nn/module.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/network/activation.h"
#include "nn/network/layer_weights.h"

namespace composer {

/// A function of one tensor with parameters.
class Layer : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  /// One line for people, for instance "Conv2d(64, 128, 3x3, stride 2)".
  virtual std::string describe() const = 0;

  /// Whether forward() is right where each rank has rows of its input (spatial_parallel.h): it
  /// computes by the functions of namespace op alone, the same ones on every rank, and takes no
  /// size of images but from them. Not so for what derives from a layer that is, unless it says so
  /// too.
  virtual bool by_rows() const { return false; }
};

class Block;
class NormLayer;

/// A place in a Block that holds one layer under one name.
class Slot {
 public:
  Slot(Block& owner, std::string name) : owner_(owner), name_(std::move(name)) {}

  /// A LayerError from within gets the slot's name.
  at::Tensor operator()(const at::Tensor& input) const;
  /// activation(layer(input) + residual), in one call of a NormLayer; residual undefined: none.
  at::Tensor operator()(const at::Tensor& input, const at::Tensor& residual,
                        Activation activation) const;

  const std::string& name() const { return name_; }
  const std::shared_ptr<Layer>& layer() const { return layer_; }

  /// Puts `layer` in place, under the same name, in the forward pass and among the owner's children
  /// alike.
  void set(std::shared_ptr<Layer> layer);

  /// What Block::through_slots() has follow the layer.
  void then(Activation activation) { next_ = activation; }
  Activation next() const { return next_; }

  /// Whether the layer keeps only its input and runs again in the backward pass (recompute.h).
  void recompute(bool on) { recomputes_ = on; }
  bool recomputes() const { return recomputes_; }

  /// Who has the layer's weights wherever it runs, and outlives that; null: they are there always.
  void weights_from(LayerWeights* weights) { weights_ = weights; }
  LayerWeights* weights() const { return weights_; }

 private:
  at::Tensor run(const at::Tensor& input) const;
  template <class Compute>
  at::Tensor with_weights(const at::Tensor& input, const Compute& compute) const;

  Block& owner_;
  std::string name_;
  std::shared_ptr<Layer> layer_;
  NormLayer* norm_ = nullptr;  ///< layer_, if it is one
  Activation next_ = Activation::none;
  bool recomputes_ = false;
  LayerWeights* weights_ = nullptr;
};

/// A layer made of layers. Derived classes keep `Slot&` members from add(), in the order of the
/// forward pass, and call them in forward(). A slot adds no level to parameter names: "conv1" holds
/// "conv1.weight".
class Block : public Layer {
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::deque<Slot>& slots() { return slots_; }
  std::string describe() const override { return name(); }

  /// Whether a network's depth is counted in it: of residual blocks, and of those without a
  /// shortcut that stand among them where sizes change.
  virtual bool adds_depth() const { return false; }

 protected:
  Slot& add(std::string name, std::shared_ptr<Layer> layer);

  /// `input` through all slots, one after another, each with its activation.
  at::Tensor through_slots(const at::Tensor& input) const;

  template <class T, class... Args>
  Slot& add(std::string name, Args&&... args) {
    return add(std::move(name),
               std::static_pointer_cast<Layer>(std::make_shared<T>(std::forward<Args>(args)...)));
  }

 private:
  std::deque<Slot> slots_;
};

/// Layers one after another.
class Sequential : public Block {
 public:
  using Named = std::pair<std::string, std::shared_ptr<Layer>>;

  /// Named "0", "1", ...
  explicit Sequential(std::vector<std::shared_ptr<Layer>> layers);
  explicit Sequential(std::vector<Named> layers);
  bool by_rows() const override;
  at::Tensor forward(const at::Tensor& input) override;
};

/// activation(residual(x) + shortcut(x)): the unit that depth-dropping methods act on. The last
/// layer of the residual branch takes in the shortcut and the activation, as a NormLayer in one
/// call.
class ResidualBlock : public Block {
 public:
  at::Tensor forward(const at::Tensor& input) override;
  bool adds_depth() const override { return true; }

  /// The residual branch up to its last layer; may be the input itself.
  virtual at::Tensor branch(const at::Tensor& input) = 0;
  virtual Slot& last() = 0;
  virtual at::Tensor shortcut(const at::Tensor& input) = 0;

  /// What follows the sum.
  virtual Activation activation() const { return Activation::relu; }

  /// last(branch(x)), without the shortcut. A class that computes another residual overrides
  /// forward() too.
  virtual at::Tensor residual(const at::Tensor& input) { return last()(branch(input)); }
};

}  // namespace composer
