// Optimizers over named parameters, updated by multi-tensor operations.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "composer/algorithm.h"
#include "composer/layer.h"

namespace composer {

/// Parameters that share hyperparameters. initial_lr is the recipe's learning rate; lr what the schedulers made of it.
struct ParameterGroup {
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  double initial_lr = 0;
  double weight_decay = 0;
  at::Tensor lr;  ///< float32 scalar on the parameters' device
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Takes all parameters of `model` that require gradients. Called once the model is on its device.
  void attach(torch::nn::Module& model);
  /// After surgery: drops parameters (and their state) that the model no longer has and takes up new ones.
  void follow(torch::nn::Module& model);

  /// One update from the parameters' gradients. found_inf: a float32 scalar on the device; where it is 1 nothing
  /// changes. May be undefined. Parameters without a gradient are left alone.
  void step(const at::Tensor& found_inf = {});
  void zero_grad();

  /// Sets every group's lr to multiplier * initial_lr, without waiting for the device.
  void set_lr_multiplier(double multiplier);
  double lr() const;  ///< of the first group, as last set

  const std::vector<ParameterGroup>& groups() const { return groups_; }
  std::vector<at::Tensor> gradients() const;

  /// State tensors named "<kind>.<parameter>", for instance "momentum_buffer.conv1.weight".
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 protected:
  // Subclasses (in optimizers.cpp) define how parameters are grouped, their state, and the update of one group.
};

}  // namespace composer
