// A copy of a model's tensors for methods that average weights (ema, lookahead, swa).
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "composer/loop/algorithm.h"
#include "nn/network/sharded_parameters.h"

namespace composer {

struct TensorPairs {
  std::vector<at::Tensor> averages, values;
};

/// The pairs of the parallel lists whose values are floating point, or the other pairs.
TensorPairs pairs_of(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                     bool floating);

/// averages <- averages + share * (values - averages), in place. Tensors that are not floating
/// point are copied. The lists run in parallel.
void move_averages(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                   double share);

/// A copy of the tensors of a model with their devices and strides; with sharded parameters, of
/// this rank's parameters. Surgery invalidates it: start it after init.
class WeightCopy {
 public:
  /// prefix: prefix of the names in a StateDict, for instance "shadow.". buffers: whether buffers
  /// are copied too.
  WeightCopy(std::string prefix, bool buffers) : prefix_(std::move(prefix)), buffers_(buffers) {}

  /// Whether there is a copy, from start() or load(). Assigns loaded tensors to those of `model`;
  /// throws UserError that names the tensors that do not fit.
  bool ready(const torch::nn::Module& model, const ShardedParameters* divided = nullptr);
  /// Copies `model`. divided: the owners of its parameters; null: every rank has all parameters.
  void start(const torch::nn::Module& model, const ShardedParameters* divided = nullptr);
  void drop();

  /// The model's tensors, each once, and their copies in the same order. Both are empty before
  /// ready() or start().
  const std::vector<at::Tensor>& weights() const { return weights_; }
  const std::vector<at::Tensor>& copies() const { return copies_; }
  /// The copies of tensors that every rank has.
  std::vector<at::Tensor> copies_of_all() const;

  /// Swaps values with the model. Tensors keep their storage.
  void swap();

  /// The copies themselves under prefix + the model's name.
  StateDict save() const;
  void load(const StateDict& state);

 private:
  /// A name of a tensor of the model; a tensor that layers share has several names.
  struct Named {
    std::string name;
    size_t index;  ///< index in weights_, or in elsewhere_ for another rank's tensor
    std::optional<int64_t> owner;  ///< rank that owns the tensor; empty: all ranks have it
    bool own;
  };

  void follow(const torch::nn::Module& model, const ShardedParameters* divided);

  std::string prefix_;
  bool buffers_;
  std::vector<Named> names_;  ///< all names of the model
  std::vector<at::Tensor> weights_, copies_;
  std::vector<at::Tensor> elsewhere_;  ///< other ranks' tensors, on the meta device
  bool started_ = false;
  std::map<std::string, at::Tensor> loaded_;  ///< by prefixed name, until ready()
};

}  // namespace composer
