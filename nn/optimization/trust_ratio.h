// Optimizers for very large batches: each weight tensor's step has a length in proportion to that
// of the tensor.
#pragma once

#include <string>
#include <vector>

#include "base/params/params.h"
#include "nn/optimization/optimizers.h"

namespace composer {

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

/// You et al. 2017 (arXiv:1708.03888), as timm computes it: d = r * (g + weight_decay * w), then
/// SGD with momentum of d, with r = trust_coeff * |w| / (|g| + weight_decay * |w| + eps); r = 1
/// where a norm is 0 and for parameters without weight decay; with trust_clip min(r / lr, 1).
/// State: momentum_buffer.
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

/// You et al. 2020 (arXiv:1904.00962), as timm computes it: d = Adam's direction + weight_decay *
/// w; w -= lr * r * d with r = |w| / |d|; r = 1 where a norm is 0 and for parameters without weight
/// decay; with trust_clip at most 1. timm also clips the gradients' norm to 1 by default:
/// grad_clip_norm does that here. State: exp_avg, exp_avg_sq, step.
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
