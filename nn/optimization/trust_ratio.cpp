#include "nn/optimization/trust_ratio.h"

#include "nn/device/optional_tensor.h"
#include "nn/optimization/skipped_step.h"

namespace composer {
namespace {

/// The norm of each tensor, float32 [n].
at::Tensor norms_of(const std::vector<at::Tensor>& tensors) {
  return at::stack(at::_foreach_norm(tensors, 2)).to(at::kFloat);
}

/// `ratios` where both norms are above 0, else 1. All [n].
at::Tensor where_moving(const at::Tensor& ratios, const at::Tensor& a, const at::Tensor& b) {
  return at::where((a > 0).logical_and(b > 0), ratios, at::ones_like(ratios));
}

}  // namespace

Lars::Lars(const Params& params)
    : Optimizer({.lr = params.lr,
                 .weight_decay = params.weight_decay,
                 .no_decay_norm_bias = params.no_decay_norm_bias,
                 .grouping = params.grouping},
                params.momentum != 0 ? std::vector<StateKind>{{"momentum_buffer"}}
                                     : std::vector<StateKind>{}),
      params_(params) {}

std::vector<at::Tensor> Lars::adapted(const Update& update) const {
  const double decay = update.group.weight_decay;
  if (decay == 0 && !params_.always_adapt) return update.gradients;
  const auto weights = norms_of(update.parameters), gradients = norms_of(update.gradients);
  auto ratios =
      where_moving(params_.trust_coeff * weights / (gradients + decay * weights + params_.eps),
                   weights, gradients);
  if (params_.trust_clip) ratios = (ratios / update.group.lr).clamp_max(1);
  auto directions = at::_foreach_add(update.gradients, update.parameters, decay);
  at::_foreach_mul_(directions, ratios.unbind());
  return directions;
}

void Lars::update(Update& update) {
  const auto directions = adapted(update);
  at::_fused_sgd_(update.parameters, directions,
                  update.state.empty() ? std::vector<at::Tensor>{} : update.state[0],
                  /*weight_decay=*/0, params_.momentum, update.group.lr, params_.dampening,
                  params_.nesterov, /*maximize=*/false, /*is_first_step=*/update.first,
                  /*grad_scale=*/{}, if_defined(update.found_inf));
}

Lamb::Lamb(const Params& params)
    : Optimizer({.lr = params.lr,
                 .weight_decay = params.weight_decay,
                 .no_decay_norm_bias = params.no_decay_norm_bias,
                 .grouping = params.grouping},
                {{"exp_avg"}, {"exp_avg_sq"}, {"step", true}}),
      params_(params) {}

std::vector<at::Tensor> Lamb::directions(const Update& update) const {
  const double beta1 = params_.betas[0], beta2 = params_.betas[1];
  const auto gradients = zero_if(update.found_inf, update.gradients);
  const auto &means = update.state[0], &squares = update.state[1];
  const auto steps = count_unless(update.found_inf, update.state[2]);
  multiply_unless(update.found_inf, means, beta1);
  at::_foreach_add_(means, gradients, params_.grad_averaging ? 1 - beta1 : 1);
  multiply_unless(update.found_inf, squares, beta2);
  at::_foreach_addcmul_(squares, gradients, gradients, 1 - beta2);

  auto scales = at::_foreach_sqrt(squares);
  if (params_.bias_correction)
    at::_foreach_mul_(scales, (1 - at::pow(beta2, steps)).rsqrt().unbind());
  at::_foreach_add_(scales, params_.eps);
  auto directions = at::_foreach_div(means, scales);
  if (params_.bias_correction)
    at::_foreach_mul_(directions, (1 - at::pow(beta1, steps)).reciprocal().unbind());
  if (const double decay = update.group.weight_decay; decay != 0)
    at::_foreach_add_(directions, update.parameters, decay);
  return directions;
}

void Lamb::update(Update& update) {
  const auto moves = directions(update);
  if (update.group.weight_decay != 0 || params_.always_adapt) {
    const auto weights = norms_of(update.parameters), lengths = norms_of(moves);
    auto ratios = where_moving(weights / lengths, weights, lengths);
    if (params_.trust_clip) ratios = ratios.clamp_max(1);
    at::_foreach_mul_(moves, ratios.unbind());
  }
  at::_foreach_mul_(moves, zero_if(update.found_inf, update.group.lr));
  at::_foreach_sub_(update.parameters, moves);
}

}  // namespace composer
