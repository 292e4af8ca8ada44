// Muon: orthogonalised steps of convolution weights, so that every direction of a layer moves by
// the same length (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks";
// https://kellerjordan.github.io/posts/muon).
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/params/params.h"
#include "nn/optimization/optimizer.h"

namespace composer {

/// Nearly orthogonal matrices with the singular vectors of `matrices` [..., rows, columns], their
/// singular values near 1 (most in [0.7, 1.2] after 5 steps of Jordan's coefficients): a quintic
/// Newton-Schulz iteration X <- aX + (bA + cAA)X, A = XX^T, in the matrices' own type.
/// coefficients: a, b, c.
at::Tensor orthogonalize(const at::Tensor& matrices, int64_t steps,
                         const std::vector<double>& coefficients);

/// For each matrix [rows, columns] the rank that orthogonalises it and sends it to the others;
/// nothing where it is faster that every rank does. The ranks' work is balanced.
std::vector<std::optional<int64_t>> share_out(
    const std::vector<std::pair<int64_t, int64_t>>& matrices, int64_t ranks);

struct MuonParams {
  double lr = 0.24;
  double momentum = 0.6;
  bool nesterov = true;
  int64_t steps = 3;
  std::vector<double> coefficients{3.4445, -4.7750, 2.0315};
  bool rescale_weights = true;
  double sgd_lr = 0.1;
  std::optional<double> head_lr = std::nullopt;
  double sgd_momentum = 0.85;
  double sgd_weight_decay = 0;
  GroupParams grouping{};

  void fields(auto&& f) {
    f("lr", lr, "peak learning rate of convolution weights", at_least(0.0));
    f("momentum", momentum, "share of the last step's direction that convolution weights keep",
      in(0.0, 1.0));
    f("nesterov", nesterov, "convolution weights look ahead along the momentum");
    f("steps", steps, "of the iteration that makes a step orthogonal", in(1, 20));
    f("coefficients", coefficients, "a, b, c of that iteration: X <- aX + (bA + cAA)X, A = XX^T");
    f("rescale_weights", rescale_weights,
      "before each step a convolution weight gets the norm sqrt(output channels); for networks "
      "that normalise after each convolution");
    f("sgd_lr", sgd_lr, "peak learning rate of all else, which SGD trains (Nesterov)",
      at_least(0.0));
    f("head_lr", head_lr, "the same of the weights of linear layers; none: sgd_lr", at_least(0.0));
    f("sgd_momentum", sgd_momentum, "SGD's share of the last step's direction that is kept",
      in(0.0, 1.0));
    f("sgd_weight_decay", sgd_weight_decay,
      "weight decay at sgd_lr; with head_lr a step takes the same share", at_least(0.0));
    grouping.fields(f);
  }
  std::string check() const;
};

/// Convolution weights (4 dimensions), with W of shape [out, the rest]: m = momentum * m + g; d = g
/// + momentum * m with nesterov, else m; W *= sqrt(out) / |W| with rescale_weights; W -= lr *
/// orthogonalize(d). Other parameters: Sgd with nesterov. State: momentum_buffer. The iteration
/// computes in bfloat16 on CUDA and in float32 elsewhere; with several ranks each large matrix is
/// computed on one of them.
class Muon : public Optimizer {
 public:
  using Params = MuonParams;
  explicit Muon(const Params& params);

 protected:
  void update(Update& update) override;
  bool in_one_pass(const ParameterGroup& group) const override;
  UpdateRule next_rule(const ParameterGroup& group, const State& state, bool first) override;
  ParameterSettings settings(const std::string& name, const at::Tensor& parameter) const override;

 private:
  void update_by_sgd(Update& update) const;
  void update_by_muon(Update& update) const;
  /// Updates the momentum; returns the step's directions before orthogonalisation.
  std::vector<at::Tensor> directions(const Update& update) const;

  Params params_;
};

}  // namespace composer
