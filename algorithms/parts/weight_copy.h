// A second set of a model's tensors that follows training from one side: what methods that average
// weights (ema, swa) share.
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

/// Of lists that run in parallel, the pairs whose values are floating point, or the others.
TensorPairs pairs_of(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                     bool floating);

/// averages <- averages + share * (values - averages), in place. Tensors that are not floating
/// point are copied. The lists run in parallel.
void move_averages(const std::vector<at::Tensor>& averages, const std::vector<at::Tensor>& values,
                   double share);

/// A copy of the tensors of a model, on their device and with their strides; where ranks share the
/// parameters out, of those that are this rank's. Outlives no surgery: start it after init.
class WeightCopy {
 public:
  /// prefix: of the names in a StateDict, for instance "shadow.". buffers: whether they belong to
  /// it, beside the parameters.
  WeightCopy(std::string prefix, bool buffers) : prefix_(std::move(prefix)), buffers_(buffers) {}

  /// Whether there is one: since start() or load(). Puts what was loaded beside `model`'s tensors;
  /// throws UserError naming the tensors that do not fit.
  bool ready(const torch::nn::Module& model, const ShardedParameters* divided = nullptr);
  /// Copies `model`. divided: who has its parameters; null: every rank has all.
  void start(const torch::nn::Module& model, const ShardedParameters* divided = nullptr);
  void drop();

  /// The model's tensors, each once, and their copies in the same order. Both empty before ready()
  /// or start().
  const std::vector<at::Tensor>& weights() const { return weights_; }
  const std::vector<at::Tensor>& copies() const { return copies_; }
  /// Copies of what every rank has.
  std::vector<at::Tensor> copies_of_all() const;

  /// Exchanges values with the model. No tensor changes its storage.
  void swap();

  /// The copies, not copies of them, under prefix + the model's name.
  void save(StateDict& state) const;
  void load(const StateDict& state);

 private:
  /// A tensor of the model under one of its names: one that layers share has several.
  struct Named {
    std::string name;
    size_t place;                  ///< in weights_; of another rank's tensor in elsewhere_
    std::optional<int64_t> owner;  ///< the rank that alone has it
    bool own;
  };

  void follow(const torch::nn::Module& model, const ShardedParameters* divided);

  std::string prefix_;
  bool buffers_;
  std::vector<Named> names_;  ///< all of the model
  std::vector<at::Tensor> weights_, copies_;
  std::vector<at::Tensor> elsewhere_;  ///< shapes of other ranks' tensors, without memory
  bool started_ = false;
  std::map<std::string, at::Tensor> loaded_;  ///< by prefixed name, until ready()
};

}  // namespace composer
