#include "algorithms/sam.h"

#include <ATen/core/grad_mode.h>

#include "composer/loop/state.h"
#include "nn/device/snapshot.h"
#include "nn/optimization/gradient_norm.h"
#include "nn/optimization/optimizer.h"

namespace composer {
namespace {

using Tensors = std::vector<at::Tensor>;

// With a gradient that is not finite the new weights and gradients are not finite either, so that
// loss scaling skips the step.
void climb(const Tensors& parameters, const Tensors& gradients, double rho, double epsilon,
           const Ranks& ranks, at::Device device) {
  const at::NoGradGuard no_grad;
  const auto factor = rho / (global_norm(gradients, ranks, device) + epsilon);
  if (gradients.empty()) return;
  at::_foreach_add_(parameters, at::_foreach_mul(gradients, factor.to(gradients[0].scalar_type())));
}

}  // namespace

void sam_gradients(const Tensors& parameters, const Tensors& buffers, double rho, double epsilon,
                   const std::function<void()>& recompute, const Ranks& ranks, at::Device device) {
  Tensors moved, gradients;
  for (const auto& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    moved.push_back(parameter);
    gradients.push_back(parameter.grad());
  }
  if (moved.empty() && ranks.alone()) return;
  Snapshot weights(moved), others(buffers);
  climb(moved, gradients, rho, epsilon, ranks, device);
  gradients.clear();
  recompute();
  weights.restore();
  others.restore();
}

void Sam::after_train_batch(State& state) {
  if ((state.time.batch + 1) % params_.interval != 0) return;
  sam_gradients(state.optimizer->parameters(), state.model->buffers(), params_.rho, params_.epsilon,
                state.recompute_gradients, state.gradient_ranks(), state.device);
}

}  // namespace composer
