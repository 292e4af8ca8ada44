// The built-in optimizers. Decoupled ones shrink weights by weight_decay * (lr / recipe's lr) per
// step, whatever the learning rate.
#pragma once

#include <string>
#include <typeinfo>
#include <vector>

#include "base/params/params.h"
#include "nn/optimization/optimizer.h"

namespace composer {

/// The problem with Adam's two betas; empty where there is none.
std::string problem_of_betas(const std::vector<double>& betas);

/// Why nesterov is not possible; empty where it is.
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

/// Its default weight decay is 0, as for PyTorch's Adam.
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
  UpdateRule next_rule(const ParameterGroup& group, const State& state, bool first) override;
  bool in_one_pass(const ParameterGroup&) const override { return typeid(*this) == typeid(Sgd); }
  bool first_update_differs() const override {
    return params_.momentum != 0 && params_.dampening != 0;
  }
  /// update() with `weight_decay` added to the gradient, and no other decay.
  void update_fused(Update& update, double weight_decay) const;

  Params params_;
};

/// Sgd without decay of the gradient; w *= 1 - (lr / recipe's lr) * weight_decay instead
/// (Loshchilov and Hutter 2019, arXiv:1711.05101).
class DecoupledSgdw : public Sgd {
 public:
  using Sgd::Sgd;

 protected:
  void update(Update& update) override;
  UpdateRule next_rule(const ParameterGroup& group, const State& state, bool first) override;
  bool in_one_pass(const ParameterGroup&) const override {
    return typeid(*this) == typeid(DecoupledSgdw);
  }
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
  /// coupled: weight decay is part of the gradient.
  void update_fused(Update& update, double weight_decay, bool coupled = false) const;
  UpdateRule next_rule(const ParameterGroup& group, const State& state, bool first) override;
  bool in_one_pass(const ParameterGroup&) const override { return typeid(*this) == typeid(AdamW); }
  /// Increments the step count.
  AdamRule rule(const ParameterGroup& group, const State& state, double weight_decay) const;

  Params params_;
};

/// AdamW with w *= 1 - (lr / recipe's lr) * weight_decay.
class DecoupledAdamW : public AdamW {
 public:
  using AdamW::AdamW;

 protected:
  void update(Update& update) override;
  UpdateRule next_rule(const ParameterGroup& group, const State& state, bool first) override;
  bool in_one_pass(const ParameterGroup&) const override {
    return typeid(*this) == typeid(DecoupledAdamW);
  }
  bool decay_follows_lr() const override { return false; }
};

/// Adam with the gradient g + weight_decay * w (Kingma and Ba 2015, arXiv:1412.6980). State as
/// AdamW.
class Adam : public AdamW {
 public:
  using Params = CoupledAdamParams;
  explicit Adam(const Params& params) : AdamW(params) {}

 protected:
  void update(Update& update) override;
  UpdateRule next_rule(const ParameterGroup& group, const State& state, bool first) override;
  bool in_one_pass(const ParameterGroup&) const override { return typeid(*this) == typeid(Adam); }
};

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
  UpdateRule next_rule(const ParameterGroup& group, const State& state, bool first) override;
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

/// PyTorch's RAdam (Liu et al. 2020, arXiv:1908.03265): Adam with steps multiplied by the
/// rectification r of step t; while the variance of the gradients' size is unknown (rho <= 5),
/// steps are not divided by that size. With R = 2 / (1 - beta2) - 1, rho = R - 2 t beta2^t / (1 -
/// beta2^t), r^2 = (rho - 4) (rho - 2) R / ((R - 4) (R - 2) rho). State: exp_avg, exp_avg_sq, step.
class RAdam : public Optimizer {
 public:
  using Params = RAdamParams;
  explicit RAdam(const Params& params);

 protected:
  void update(Update& update) override;
  UpdateRule next_rule(const ParameterGroup& group, const State& state, bool first) override;
  bool in_one_pass(const ParameterGroup&) const override { return typeid(*this) == typeid(RAdam); }

  Params params_;
};

struct LarsParams {
  double lr = 1;
  double momentum = 0.9;
  double weight_decay = 0;
  double dampening = 0;
  bool nesterov = false;
  double trust_coeff = 1e-3;
  double eps = 1e-8;
  bool trust_clip = false;
  bool always_adapt = false;
  bool no_decay_norm_bias = false;
  GroupParams grouping{};

  void fields(auto&& f) {
    f("lr", lr, "peak learning rate", at_least(0.0));
    f("momentum", momentum, "share of the last step's direction that is kept", in(0.0, 1.0));
    f("weight_decay", weight_decay, "weight decay, part of the gradient", at_least(0.0));
    f("dampening", dampening, "share of the gradient left out of the momentum", in(0.0, 1.0));
    f("nesterov", nesterov, "look ahead along the momentum");
    f("trust_coeff", trust_coeff, "the length of a step, as a share of the weight's, at lr 1",
      above(0.0));
    f("eps", eps, "added to the gradient's norm", at_least(0.0));
    f("trust_clip", trust_clip, "no step is longer than SGD's (LARC)");
    f("always_adapt", always_adapt, "parameters without weight decay are adapted too");
    f("no_decay_norm_bias", no_decay_norm_bias,
      "no weight decay for biases and normalisation layers, and so SGD's steps");
    grouping.fields(f);
  }
  std::string check() const { return problem_of_nesterov(nesterov, momentum, dampening); }
};

/// You et al. 2017 (arXiv:1708.03888), as in timm: SGD with momentum of d = r * (g + weight_decay *
/// w), with r = trust_coeff * |w| / (|g| + weight_decay * |w| + eps); r = 1 where a norm is 0 and
/// for parameters without weight decay; min(r / lr, 1) with trust_clip. State: momentum_buffer.
class Lars : public Optimizer {
 public:
  using Params = LarsParams;
  explicit Lars(const Params& params);

 protected:
  void update(Update& update) override;
  bool first_update_differs() const override {
    return params_.momentum != 0 && params_.dampening != 0;
  }

 private:
  std::vector<at::Tensor> adapted(const Update& update) const;

  Params params_;
};

struct LambParams {
  double lr = 1e-3;
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 1e-2;
  bool bias_correction = true;
  bool grad_averaging = true;
  bool trust_clip = false;
  bool always_adapt = false;
  bool no_decay_norm_bias = false;
  GroupParams grouping{};

  void fields(auto&& f) {
    f("lr", lr, "peak learning rate", at_least(0.0));
    f("betas", betas, "decay of the running means of the gradient and its square", in(0.0, 1.0));
    f("eps", eps, "added to the denominator", above(0.0));
    f("weight_decay", weight_decay, "weight decay, part of the step", at_least(0.0));
    f("bias_correction", bias_correction, "the running means are corrected for their start at 0");
    f("grad_averaging", grad_averaging,
      "the running mean takes 1 - beta1 of the gradient, not all");
    f("trust_clip", trust_clip, "no step is longer than AdamW's");
    f("always_adapt", always_adapt, "parameters without weight decay are adapted too");
    f("no_decay_norm_bias", no_decay_norm_bias,
      "no weight decay for biases and normalisation layers, and so Adam's steps");
    grouping.fields(f);
  }
  std::string check() const { return problem_of_betas(betas); }
};

/// You et al. 2020 (arXiv:1904.00962), as in timm: d = Adam's direction + weight_decay * w; w -= lr
/// * r * d with r = |w| / |d|; r = 1 where a norm is 0 and for parameters without weight decay; at
/// most 1 with trust_clip. timm also clips the gradients' norm to 1 by default, as grad_clip_norm
/// does here. State: exp_avg, exp_avg_sq, step.
class Lamb : public Optimizer {
 public:
  using Params = LambParams;
  explicit Lamb(const Params& params);

 protected:
  void update(Update& update) override;

 private:
  std::vector<at::Tensor> directions(const Update& update) const;

  Params params_;
};

}  // namespace composer
