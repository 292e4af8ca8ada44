// The built-in optimizers. A decoupled one shrinks weights by weight_decay * (lr / recipe's lr) a
// step, whatever the learning rate's size.
#pragma once

#include <string>
#include <vector>

#include "base/params/params.h"
#include "nn/optimization/optimizer.h"

namespace composer {

/// What is wrong with Adam's two betas; empty: nothing.
std::string problem_of_betas(const std::vector<double>& betas);

/// What keeps momentum from looking ahead; empty: nothing.
std::string problem_of_nesterov(bool nesterov, double momentum, double dampening);

struct SgdParams {
  double lr = 0.1;
  double momentum = 0;
  double weight_decay = 0;
  double dampening = 0;
  bool nesterov = false;
  bool no_decay_norm_bias = false;
  GroupParams grouping{};

  void fields(auto&& f) {
    f("lr", lr, "peak learning rate", required, at_least(0.0));
    f("momentum", momentum, "share of the last step's direction that is kept", in(0.0, 1.0));
    f("weight_decay", weight_decay, "weight decay", at_least(0.0));
    f("dampening", dampening, "share of the gradient left out of the momentum", in(0.0, 1.0));
    f("nesterov", nesterov, "look ahead along the momentum");
    f("no_decay_norm_bias", no_decay_norm_bias,
      "no weight decay for biases and normalisation layers");
    grouping.fields(f);
  }
  std::string check() const { return problem_of_nesterov(nesterov, momentum, dampening); }
};

struct AdamParams {
  double lr = 1e-3;
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool no_decay_norm_bias = false;
  GroupParams grouping{};

  void fields(auto&& f) {
    f("lr", lr, "peak learning rate", at_least(0.0));
    f("betas", betas, "decay of the running means of the gradient and its square", in(0.0, 1.0));
    f("eps", eps, "added to the denominator", at_least(0.0));
    f("weight_decay", weight_decay, "weight decay", at_least(0.0));
    f("amsgrad", amsgrad, "divide by the largest second moment so far (Reddi et al. 2018)");
    f("no_decay_norm_bias", no_decay_norm_bias,
      "no weight decay for biases and normalisation layers");
    grouping.fields(f);
  }
  std::string check() const { return problem_of_betas(betas); }
};

/// Without weight decay where the recipe names none, as PyTorch's Adam.
struct CoupledAdamParams : AdamParams {
  CoupledAdamParams() { weight_decay = 0; }
};

/// d = g + weight_decay * w;  m = momentum * m + (1 - dampening) * d (m = d at first);  w -= lr *
/// m, with nesterov lr * (d + momentum * m). State: momentum_buffer.
class Sgd : public Optimizer {
 public:
  using Params = SgdParams;
  explicit Sgd(const Params& params);

 protected:
  void update(Update& update) override;
  UpdateRule next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                       bool first) override;
  bool in_one_pass(const ParameterGroup&) const override;
  bool first_update_differs() const override {
    return params_.momentum != 0 && params_.dampening != 0;
  }
  /// The update without decay other than `weight_decay` added to the gradient.
  void update_fused(Update& update, double weight_decay) const;

  Params params_;
};

/// Sgd with the gradient undecayed, and w *= 1 - (lr / recipe's lr) * weight_decay instead
/// (Loshchilov and Hutter 2019, arXiv:1711.05101).
class DecoupledSgdw : public Sgd {
 public:
  using Sgd::Sgd;

 protected:
  void update(Update& update) override;
  UpdateRule next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                       bool first) override;
  bool in_one_pass(const ParameterGroup&) const override;
  bool decay_follows_lr() const override { return false; }
};

/// Loshchilov and Hutter 2019: w *= 1 - lr * weight_decay, then Adam. State: exp_avg, exp_avg_sq,
/// step, and with amsgrad max_exp_avg_sq.
class AdamW : public Optimizer {
 public:
  using Params = AdamParams;
  explicit AdamW(const Params& params);

 protected:
  void update(Update& update) override { update_fused(update, update.group.weight_decay); }
  /// coupled: the decay is part of the gradient.
  void update_fused(Update& update, double weight_decay, bool coupled = false) const;
  UpdateRule next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                       bool first) override;
  bool in_one_pass(const ParameterGroup&) const override;
  /// Counts the step.
  AdamRule rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                double weight_decay) const;

  Params params_;
};

/// AdamW with w *= 1 - (lr / recipe's lr) * weight_decay.
class DecoupledAdamW : public AdamW {
 public:
  using AdamW::AdamW;

 protected:
  void update(Update& update) override;
  UpdateRule next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                       bool first) override;
  bool in_one_pass(const ParameterGroup&) const override;
  bool decay_follows_lr() const override { return false; }
};

/// Adam of g + weight_decay * w (Kingma and Ba 2015, arXiv:1412.6980). State as AdamW.
class Adam : public AdamW {
 public:
  using Params = CoupledAdamParams;
  explicit Adam(const Params& params) : AdamW(params) {}

 protected:
  void update(Update& update) override;
  UpdateRule next_rule(const ParameterGroup& group, const std::vector<at::Tensor>& state,
                       bool first) override;
  bool in_one_pass(const ParameterGroup&) const override;
};

}  // namespace composer
