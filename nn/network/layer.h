// Layers that can be replaced. A network holds its layers in slots and calls them through the
// slots, so that surgery (blurpool, ...) can put another layer in; LibTorch's replace_module
// changes only the registry entry.
#pragma once

#include <torch/nn/module.h>

#include <deque>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "base/error.h"
#include "nn/network/activation.h"

namespace composer {

struct Pool2dOptions;

/// A layer cannot compute on a tensor of this size. Each slot on the way out adds its name to the
/// path.
class LayerError : public RunError {
 public:
  explicit LayerError(std::string problem, std::string path = {})
      : RunError((path.empty() ? "" : "layer " + path + ": ") + problem),
        problem_(std::move(problem)),
        path_(std::move(path)) {}

  LayerError inside(const std::string& name) const {
    return LayerError(problem_, path_.empty() ? name : name + "." + path_);
  }

 private:
  std::string problem_, path_;
};

/// Holds layers' weights that are in memory only while a layer computes; it is told of each forward
/// pass of these layers.
class LayerWeights {
 public:
  virtual ~LayerWeights() = default;
  /// Called before the layer runs: its weights must be in memory then.
  virtual void fetch() = 0;
  /// Called after the layer made `output` of `input`. Returns the output to use instead; where
  /// autograd recorded the layer, its weights must be in memory again for its backward pass.
  virtual at::Tensor release(const at::Tensor& input, at::Tensor output) = 0;
};

/// A function of one tensor with parameters.
class Layer : public torch::nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  /// One line for people, for instance "Conv2d(64, 128, 3x3, stride 2)".
  virtual std::string describe() const = 0;

  /// The pool, if the layer is a max pool and nothing else; a norm before it may take it.
  virtual const Pool2dOptions* max_pool() const { return nullptr; }

  /// Whether forward() is right where each rank has only some rows of its input
  /// (spatial_parallel.h): it calls only functions of namespace op, the same ones on every rank,
  /// and takes image sizes only from them. A derived class must say so again itself.
  virtual bool by_rows() const { return false; }
};

class Block;
class NormLayer;

/// A named position in a Block that holds one layer.
class Slot {
 public:
  Slot(Block& owner, std::string name) : owner_(owner), name_(std::move(name)) {}

  /// Adds the slot's name to a LayerError from within.
  at::Tensor operator()(const at::Tensor& input) const;
  /// activation(layer(input) + residual), in one call for a NormLayer. residual: may be undefined.
  at::Tensor operator()(const at::Tensor& input, const at::Tensor& residual,
                        Activation activation) const;
  /// activation(layer(input) + shortcut(from)), with the norm that ends the shortcut in the same
  /// operator, where there is one for both.
  at::Tensor operator()(const at::Tensor& input, const Slot& shortcut, const at::Tensor& from,
                        Activation activation) const;
  /// The layer, its activation and the max pool in the slot `next` in one operator; undefined where
  /// there is none for them.
  at::Tensor pooled(const at::Tensor& input, const Slot& next) const;

  const std::string& name() const { return name_; }
  const std::shared_ptr<Layer>& layer() const { return layer_; }

  /// Replaces the layer under the same name, in the forward pass and among the owner's children.
  void set(std::shared_ptr<Layer> layer);

  /// The activation that Block::through_slots() applies after the layer.
  void then(Activation activation) { next_ = activation; }
  Activation next() const { return next_; }

  /// Whether the layer saves only its input and runs again in the backward pass (recompute.h).
  void recompute(bool on) { recomputes_ = on; }
  bool recomputes() const { return recomputes_; }

  /// The holder of the layer's weights, which outlives the slot's calls; null: the weights are
  /// always in memory.
  void weights_from(LayerWeights* weights) { weights_ = weights; }
  LayerWeights* weights() const { return weights_; }

 private:
  at::Tensor run(const at::Tensor& input) const;
  /// Whether the layer may be computed together with another slot's.
  bool joins() const;
  /// The layer's output, made by `compute`, with the layer's weights in memory.
  template <class Compute>
  at::Tensor computed(const at::Tensor& input, const Compute& compute) const;

  Block& owner_;
  std::string name_;
  std::shared_ptr<Layer> layer_;
  NormLayer* norm_ = nullptr;  ///< layer_, if it is a NormLayer
  Activation next_ = Activation::none;
  bool recomputes_ = false;
  LayerWeights* weights_ = nullptr;
};

/// A layer made of layers. Derived classes keep the `Slot&` that add() returns, in the order of the
/// forward pass, and call them in forward(). A slot adds no level to parameter names: "conv1" holds
/// "conv1.weight".
class Block : public Layer {
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// By default: the slots one after another.
  at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }

  std::deque<Slot>& slots() { return slots_; }
  std::string describe() const override { return name(); }

  /// Whether the block counts for a network's depth: residual blocks do, and blocks without a
  /// shortcut that stand among them where sizes change.
  virtual bool adds_depth() const { return false; }

 protected:
  Slot& add(std::string name, std::shared_ptr<Layer> layer);

  /// `input` through all slots but the last `without`, one after another, each with its activation.
  at::Tensor through_slots(const at::Tensor& input, size_t without = 0) const;

  template <class T, class... Args>
  Slot& add(std::string name, Args&&... args) {
    return add(std::move(name),
               std::static_pointer_cast<Layer>(std::make_shared<T>(std::forward<Args>(args)...)));
  }

 private:
  friend class Slot;
  std::deque<Slot> slots_;
};

/// Layers one after another.
class Sequential : public Block {
 public:
  using Named = std::pair<std::string, std::shared_ptr<Layer>>;

  /// The layers are named "0", "1", ...
  explicit Sequential(std::vector<std::shared_ptr<Layer>> layers);
  explicit Sequential(std::vector<Named> layers);
  bool by_rows() const override { return typeid(*this) == typeid(Sequential); }
};

/// A block that computes gates of channels, which algorithms that add gates leave alone: its layers
/// see one pixel per image.
class ChannelGates {
 public:
  virtual ~ChannelGates() = default;
};

/// activation(residual(x) + shortcut(x)): the unit that stochastic depth drops. The residual
/// branch's last layer takes the shortcut and the activation, in one call if it is a NormLayer.
class ResidualBlock : public Block {
 public:
  at::Tensor forward(const at::Tensor& input) override;
  bool adds_depth() const override { return true; }

  /// The residual branch up to its last layer; may be the input itself.
  virtual at::Tensor branch(const at::Tensor& input) = 0;
  virtual Slot& last() = 0;
  virtual at::Tensor shortcut(const at::Tensor& input) = 0;

  /// The activation after the sum.
  virtual Activation activation() const { return Activation::relu; }

  /// last(branch(x)), without the shortcut. A class that overrides it overrides forward() too.
  virtual at::Tensor residual(const at::Tensor& input) { return last()(branch(input)); }
};

/// A normalisation that takes the residual and the activation after it, so that one kernel may
/// compute all of them.
class NormLayer : public Layer {
 public:
  /// activation(normalize(input) + residual). residual: [N, C, ...] like the output, or undefined.
  /// An override computes the same in fewer passes.
  virtual at::Tensor forward(const at::Tensor& input, const at::Tensor& residual,
                             Activation activation);

  /// activation(normalize(input) + the norm of `residual` by `residual_norm`) in one operator;
  /// undefined where there is none.
  virtual at::Tensor forward_with_norm(const at::Tensor& input, const at::Tensor& residual,
                                       NormLayer& residual_norm, Activation activation);

  /// max_pool2d(activation(normalize(input))) in one operator; undefined where there is none.
  virtual at::Tensor forward_pooled(const at::Tensor& input, Activation activation,
                                    const Pool2dOptions& pool);

  /// Why no operator computes the norm together with what follows; empty where that depends on the
  /// input (fused_norm.h).
  virtual std::string why_separate() const { return "there is no operator for it"; }

  at::Tensor forward(const at::Tensor& input) final { return forward(input, {}, Activation::none); }

 protected:
  /// The norm alone. It returns a new tensor, which the sum and the activation overwrite: its
  /// gradient must not need it.
  virtual at::Tensor normalize(const at::Tensor& input) = 0;
};

/// activation(output + residual); does not change `output` or `residual`.
at::Tensor followed(const at::Tensor& output, const at::Tensor& residual, Activation activation);

/// The same, overwriting `output` where the activation has an in-place form.
at::Tensor followed_in_place(at::Tensor output, const at::Tensor& residual, Activation activation);

}  // namespace composer
