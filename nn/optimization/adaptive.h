// Optimizers that divide each number's step by the size of its gradients, besides Adam's.
#pragma once

#include <string>
#include <vector>

#include "base/params/params.h"
#include "nn/optimization/optimizers.h"

namespace composer {

struct RmspropParams {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool no_decay_norm_bias = false;
  GroupParams grouping{};

  void fields(auto&& f) {
    f("lr", lr, "peak learning rate", at_least(0.0));
    f("alpha", alpha, "decay of the running mean of the gradient's square", in(0.0, 1.0));
    f("eps", eps, "added to the denominator", above(0.0));
    f("weight_decay", weight_decay, "weight decay, part of the gradient", at_least(0.0));
    f("momentum", momentum, "share of the last step's direction that is kept", in(0.0, 1.0));
    f("centered", centered, "divide by the gradient's deviation from its running mean");
    f("no_decay_norm_bias", no_decay_norm_bias,
      "no weight decay for biases and normalisation layers");
    grouping.fields(f);
  }
};

/// PyTorch's RMSprop (Tieleman and Hinton 2012; centered: Graves 2013, arXiv:1308.0850):
/// d = g + weight_decay * w;  v = alpha * v + (1 - alpha) * d^2;  s = d / (sqrt(v) + eps), with
/// centered sqrt(v - a^2), a being the running mean of d;  m = momentum * m + s;  w -= lr * m.
/// State: square_avg, with centered grad_avg, with momentum momentum_buffer.
class Rmsprop : public Optimizer {
 public:
  using Params = RmspropParams;
  explicit Rmsprop(const Params& params);

 protected:
  void update(Update& update) override;
  UpdateRule next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                       bool first) override;
  bool in_one_pass(const ParameterGroup&) const override;

  Params params_;
};

struct RAdamParams {
  double lr = 1e-3;
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool no_decay_norm_bias = false;
  GroupParams grouping{};

  void fields(auto&& f) {
    f("lr", lr, "peak learning rate", at_least(0.0));
    f("betas", betas, "decay of the running means of the gradient and its square", in(0.0, 1.0));
    f("eps", eps, "added to the denominator", above(0.0));
    f("weight_decay", weight_decay, "weight decay", at_least(0.0));
    f("decoupled_weight_decay", decoupled_weight_decay,
      "weights shrink by lr * weight_decay, as AdamW's; else it is part of the gradient");
    f("no_decay_norm_bias", no_decay_norm_bias,
      "no weight decay for biases and normalisation layers");
    grouping.fields(f);
  }
  std::string check() const { return problem_of_betas(betas); }
};

/// PyTorch's RAdam (Liu et al. 2020, arXiv:1908.03265): Adam whose steps are multiplied by the
/// rectification r of step t, and not divided by the gradients' size while their variance is not
/// known (rho <= 5): with R = 2 / (1 - beta2) - 1, rho = R - 2 t beta2^t / (1 - beta2^t),
/// r^2 = (rho - 4) (rho - 2) R / ((R - 4) (R - 2) rho). State: exp_avg, exp_avg_sq, step.
class RAdam : public Optimizer {
 public:
  using Params = RAdamParams;
  explicit RAdam(const Params& params);

 protected:
  void update(Update& update) override;
  UpdateRule next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                       bool first) override;
  bool in_one_pass(const ParameterGroup&) const override;

  Params params_;
};

}  // namespace composer
