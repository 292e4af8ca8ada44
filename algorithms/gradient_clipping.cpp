#include "algorithms/gradient_clipping.h"

#include <ATen/core/grad_mode.h>

#include <limits>

#include "base/error.h"
#include "composer/loop/state.h"
#include "nn/optimization/gradient_norm.h"
#include "nn/optimization/optimizer.h"

namespace composer {
namespace {

using Tensors = std::vector<at::Tensor>;

void clip_values(const Tensors& gradients, double threshold) {
  at::_foreach_clamp_min_(gradients, -threshold);
  at::_foreach_clamp_max_(gradients, threshold);
}

/// The norms of all units in one vector, those of tensors of at most one dimension last.
at::Tensor unit_norms(const Tensors& matrices, const Tensors& vectors) {
  Tensors norms;
  for (const auto& matrix : matrices)
    norms.push_back(at::linalg_vector_norm(matrix.flatten(1), 2, at::IntArrayRef{1}));
  if (!vectors.empty()) norms.push_back(at::stack(at::_foreach_norm(vectors, 2)));
  return at::cat(norms);
}

void clip_units(const Tensors& parameters, double threshold) {
  Tensors matrices, vectors, matrix_gradients, vector_gradients;
  std::vector<int64_t> units;
  for (const auto& parameter : parameters) {
    const bool vector = parameter.dim() <= 1;
    (vector ? vectors : matrices).push_back(parameter);
    (vector ? vector_gradients : matrix_gradients).push_back(parameter.grad());
    if (!vector) units.push_back(parameter.size(0));
  }
  // A unit whose gradient is zero stays zero for every factor except NaN.
  const auto norms =
      unit_norms(matrix_gradients, vector_gradients).clamp_min_(std::numeric_limits<float>::min());
  constexpr double smallest_weight = 1e-3;  // so that units that start at zero can leave it
  const auto weights = unit_norms(matrices, vectors).clamp_min_(smallest_weight);
  const auto shares = weights.mul_(threshold).div_(norms).clamp_max_(1.0);

  units.resize(units.size() + vectors.size(), 1);
  auto factors = shares.split_with_sizes(units);
  for (size_t i = 0; i < matrices.size(); ++i) {
    std::vector<int64_t> shape(static_cast<size_t>(matrices[i].dim()), 1);
    shape[0] = matrices[i].size(0);
    factors[i] = factors[i].view(shape);
  }
  auto gradients = std::move(matrix_gradients);
  gradients.insert(gradients.end(), vector_gradients.begin(), vector_gradients.end());
  for (size_t i = matrices.size(); i < gradients.size(); ++i) factors[i] = factors[i].squeeze(0);
  at::_foreach_mul_(gradients, factors);
}

}  // namespace

void clip_gradients(const std::vector<at::Tensor>& parameters, std::string_view type,
                    double threshold, const Ranks& ranks, at::Device device) {
  const at::NoGradGuard no_grad;
  Tensors clipped, gradients;
  for (const auto& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    clipped.push_back(parameter);
    gradients.push_back(parameter.grad());
  }
  if (type != "norm" && type != "value" && type != "adaptive")
    throw UserError("clip_gradients: type must be norm, value or adaptive, not '" +
                    std::string(type) + "'");
  if (type == "norm") clip_global_norm(gradients, threshold, ranks, device);
  if (gradients.empty()) return;
  if (type == "value") clip_values(gradients, threshold);
  if (type == "adaptive") clip_units(clipped, threshold);
}

void GradientClipping::after_train_batch(State& state) {
  clip_gradients(state.optimizer->parameters(), params_.clipping_type, params_.clipping_threshold,
                 state.gradient_ranks(), state.device);
}

}  // namespace composer
